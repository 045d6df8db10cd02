"""Which world do the portal's tests look at?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from placement.models import Allocation
from tenants.models import User
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_member, a_tenant
from tests.identity.factors import pass_factor

ROLES = ("owner", "admin", "member", "viewer", "billing")


@dataclass
class World:
    """Two tenants on one host: acme has people of every role, globex is the stranger."""

    acme: TenantWorld
    globex: TenantWorld
    host: Host
    running: Allocation
    foreign: Allocation
    people: dict[str, User]

    def url(self, path: str = "", tenant: str = "acme") -> str:
        """An address of a tenant's page."""
        return f"/t/{tenant}/{path}"

    def browser(self, role: str = "owner") -> Browser:
        """The browser of a person of this role in acme."""
        return Browser.of(self.people[role])


class Browser(Client):
    """A browser that is checked for CSRF as a real one is."""

    @classmethod
    def of(cls, user: User) -> Browser:
        """One in which this person has signed in."""
        made = cls(enforce_csrf_checks=True)
        made.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        if user.is_staff:
            pass_factor(made, user)
        return made

    def send(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> HttpResponse:
        """Send a form with the token that a page of ours would carry."""
        self.cookies["gpuaas_csrf"] = TOKEN
        answer = self.post(path, {"csrfmiddlewaretoken": TOKEN, **(data or {})}, **more)
        assert isinstance(answer, HttpResponse)
        return answer


TOKEN = "t" * 32


@pytest.fixture
def world(db: None) -> World:
    """The world."""
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex", envelope_slots=2)
    host = a_host()
    running = acme.order(slots=2, name="train-1").allocation
    foreign = globex.order(slots=1, name="foreign-1").allocation
    assert running is not None
    assert foreign is not None
    host.work()
    people = {role: a_member(acme, role) for role in ROLES if role != "owner"}
    people["owner"] = acme.owner
    return World(acme, globex, host, running, foreign, people)
