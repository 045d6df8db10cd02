"""Can somebody who just installed the product become its first administrator?"""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.test import RequestFactory

from gpuaas.kernel.models import Event

pytestmark = pytest.mark.django_db


def test_the_command_makes_an_operator_and_prints_the_password_once() -> None:
    out = StringIO()
    call_command("operator_create", "ada@example.test", stdout=out)
    password = out.getvalue().split("password ")[1].strip()
    request = RequestFactory().post("/sign-in/")
    user = authenticate(request, username="ada@example.test", password=password)
    assert user is not None
    assert user.is_staff
    assert password not in str(Event.objects.values_list("after", "facts"))


def test_an_address_that_is_taken_is_said() -> None:
    call_command("operator_create", "ada@example.test", stdout=StringIO())
    with pytest.raises(CommandError, match="name_taken"):
        call_command("operator_create", "ADA@example.test", stdout=StringIO())
