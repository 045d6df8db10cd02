"""Which world do the portal's tests look at?"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from placement.models import Allocation
from tenants.models import User
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_member, a_tenant


@dataclass
class World:
    """Two tenants; one has something that runs, something that waits, something refused."""

    acme: TenantWorld
    globex: TenantWorld
    host: Host
    running: Allocation
    foreign: Allocation

    def url(self, path: str = "", tenant: str = "acme") -> str:
        """An address of a tenant's page."""
        return f"/t/{tenant}/{path}"


def client_of(user: User) -> Client:
    """A browser in which this person has signed in; it checks CSRF as a real one is."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def post(client: Client, path: str, data: dict[str, object] | None = None) -> object:
    """Send a form as a page of ours would, with its token."""
    client.get("/sign-in/" if "_auth_user_id" not in client.session else "/docs/reasons/")
    token = client.cookies["gpuaas_csrf"].value if "gpuaas_csrf" in client.cookies else ""
    if not token:
        token = client.get("/sign-up/").cookies["gpuaas_csrf"].value
    return client.post(path, {"csrfmiddlewaretoken": token, **(data or {})})


@pytest.fixture
def world(transactional_db: None) -> World:
    """The world."""
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex", envelope_slots=2)
    host = a_host()
    running = acme.order(slots=2, name="train-1").allocation
    foreign = globex.order(slots=1, name="foreign-1").allocation
    assert running is not None
    assert foreign is not None
    host.work()
    host.report()
    for role in ("viewer", "member", "admin", "billing"):
        a_member(acme, role)
    return World(acme, globex, host, running, foreign)
