"""Can a page of the portal change things over the API, as a program does?"""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from gpuaas.kernel import ids
from placement.models import Allocation
from tenants.models import Project
from tests.api.client import order_body
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db

TOKEN = "a" * 32


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


class Page:
    """A browser that is signed in, and sends the token of the page it shows."""

    def __init__(self, world: TenantWorld) -> None:
        self.http = Client(enforce_csrf_checks=True)
        self.http.force_login(world.owner, backend="django.contrib.auth.backends.ModelBackend")
        self.http.cookies[settings.CSRF_COOKIE_NAME] = TOKEN

    def post(self, path: str, body: Any, *, key: str = "", token: str = TOKEN) -> Any:
        """POST with the page's token and, where one is given, an Idempotency-Key."""
        headers = {"X-CSRFToken": token} | ({"Idempotency-Key": key} if key else {})
        return self.http.post(
            f"/api/v1{path}", body, content_type="application/json", headers=headers
        )


def test_a_page_makes_a_project_once_for_each_key(world: TenantWorld) -> None:
    page, key = Page(world), str(ids.new_id())
    made = page.post("/projects", {"name": "Research"}, key=key)
    assert made.status_code == 201, made.content
    again = page.post("/projects", {"name": "Research"}, key=key)
    assert (again.status_code, again.json()) == (201, made.json())
    other = page.post("/projects", {"name": "Other"}, key=key)
    assert other.json()["code"] == "idempotency_key_reused"
    assert Project.objects.filter(name="Research").count() == 1


@pytest.mark.parametrize("by", ["slug", "id"])
def test_a_page_orders_an_allocation(world: TenantWorld, by: str) -> None:
    a_host()
    page = Page(world)
    project = Project.objects.get(tenant=world.tenant)
    path = f"/projects/{project.slug if by == 'slug' else project.pk}/allocations"
    without = page.post(path, order_body())
    assert without.json()["code"] == "idempotency_key_required"
    ordered = page.post(path, order_body(), key=str(ids.new_id()))
    assert ordered.status_code == 202, ordered.content
    assert Allocation.objects.count() == 1


def test_without_the_pages_token_nothing_is_made(world: TenantWorld) -> None:
    answer = Page(world).post(
        "/projects", {"name": "Research"}, key=str(ids.new_id()), token="b" * 32
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_refused")
    assert not Project.objects.filter(name="Research").exists()


def test_a_body_longer_than_may_be_taken_is_told_as_such(world: TenantWorld) -> None:
    body = {"name": "x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE}
    answer = Page(world).post("/projects", body, key=str(ids.new_id()))
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
