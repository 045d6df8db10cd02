"""Is a form that carries files read without keeping any, and one that is too long not at all?"""

from __future__ import annotations

import pytest
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory


def test_the_fields_of_a_form_are_taken_and_its_files_are_not() -> None:
    sent = {"name": "y", "file": SimpleUploadedFile("a.bin", b"x" * 100_000), "reason": "z"}
    request = RequestFactory().post("/", sent)
    assert (request.POST["name"], request.POST["reason"]) == ("y", "z")
    assert not request.FILES


def test_a_form_that_is_longer_than_a_body_may_be_is_refused_before_it_is_read() -> None:
    request = RequestFactory().post("/", {"file": SimpleUploadedFile("a", b"x" * 1_100_000)})
    with pytest.raises(RequestDataTooBig):
        assert request.POST
    assert len(request.read()) > 1_100_000, "all of it is still there"


@pytest.mark.django_db
def test_who_sends_a_page_more_than_it_may_is_told_so() -> None:
    sent = {"username": "ada", "file": SimpleUploadedFile("a", b"x" * 1_100_000)}
    assert Client().post("/sign-in/", sent).status_code == 400
