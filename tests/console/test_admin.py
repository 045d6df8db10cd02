"""Are records in the admin only to be read, and changed only through reasoned actions?"""

from __future__ import annotations

import pytest
from django.contrib import admin

from gpuaas.kernel.models import Event
from gpuaas.kernel.records import RecordAdmin
from placement.models import NodeDrain
from tenants.models import ApiToken, Tenant
from tenants.services.access import token_create
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

OURS = ("kernel", "tenants", "admission", "placement")
RECORDS = [m for m in admin.site._registry if m._meta.app_label in OURS]


@pytest.mark.parametrize("model", RECORDS, ids=lambda m: m._meta.label_lower)
def test_every_list_and_row_can_be_read_and_none_changed(fleet: Fleet, model: type[Event]) -> None:
    browser = fleet.browser()
    meta = model._meta
    base = f"/admin/{meta.app_label}/{meta.model_name}/"
    assert browser.get(base).status_code == 200
    assert browser.get(f"{base}add/").status_code == 403
    row = model._default_manager.order_by("pk").first()
    if row is not None:
        assert browser.get(f"{base}{row.pk}/change/").status_code == 200
        assert browser.send(f"{base}{row.pk}/change/", {"name": "x"}).status_code == 403
        assert browser.get(f"{base}{row.pk}/delete/").status_code == 403
    assert isinstance(admin.site._registry[model], RecordAdmin)


def test_a_tenants_people_do_not_come_in(fleet: Fleet) -> None:
    answer = Browser.of(fleet.acme.owner).get("/admin/")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/admin/login/")


def test_secrets_are_not_shown(fleet: Fleet) -> None:
    token, text = token_create(
        user=fleet.acme.owner,
        tenant_id=fleet.acme.tenant.pk,
        name="ci",
        scopes=[],
        expires_in_days=7,
        actor=fleet.acme.actor,
    )
    browser = fleet.browser()
    page = browser.get(f"/admin/tenants/apitoken/{token.pk}/change/").content.decode()
    assert token.key in page
    assert text not in page
    assert "Digest" not in page
    person = browser.get(f"/admin/tenants/user/{fleet.acme.owner.pk}/change/").content.decode()
    assert fleet.acme.owner.password not in person


def test_an_action_tells_its_consequence_asks_why_and_runs(fleet: Fleet) -> None:
    browser = fleet.browser()
    row = fleet.host.node
    change = f"/admin/placement/node/{row.pk}/change/"
    page = browser.get(change).content.decode()
    assert "Drain" in page
    assert "Put it back to work" not in page
    address = f"/admin/placement/node/{row.pk}/drain/"
    form = browser.get(address).content.decode()
    assert "Nothing new is placed on it." in form
    assert browser.send(address, {"reason": ""}).status_code == 400
    assert not NodeDrain.objects.exists()
    answer = browser.send(address, {"reason": "firmware"})
    assert answer.headers["Location"] == change
    assert NodeDrain.objects.get().reason == "firmware"
    event = Event.objects.get(kind="placement.node.drain")
    assert event.actor["name"] == "op@platform.test"


def test_a_refused_action_is_told_in_the_form(fleet: Fleet) -> None:
    address = f"/admin/placement/node/{fleet.host.node.pk}/restore/"
    answer = fleet.browser().send(address, {"reason": "x"})
    assert answer.status_code == 400
    assert "transition_refused" in answer.content.decode()


def test_nodes_tenants_and_cleanups_are_acted_on_from_their_rows(fleet: Fleet) -> None:
    browser, second = fleet.browser(), Browser.of(fleet.second)
    browser.send(f"/admin/placement/node/{fleet.verifying.pk}/approve/", {"reason": "ok"})
    fleet.verifying.refresh_from_db()
    assert fleet.verifying.state == "ready"
    tenant = fleet.waiting.tenant
    browser.send(f"/admin/tenants/tenant/{tenant.pk}/approve/", {"reason": "known"})
    assert Tenant.objects.get(pk=tenant.pk).state == "active"
    base = f"/admin/placement/allocation/{fleet.blocked.pk}"
    browser.send(f"{base}/ask-override/", {"reason": "scrapped"})
    assert browser.send(f"{base}/approve-override/", {"reason": "me too"}).status_code == 400
    second.send(f"{base}/approve-override/", {"reason": "agreed"})
    fleet.blocked.refresh_from_db()
    assert fleet.blocked.state == "released"


def test_a_token_is_revoked_from_its_row(fleet: Fleet) -> None:
    token, _ = token_create(
        user=fleet.acme.owner,
        tenant_id=fleet.acme.tenant.pk,
        name="ci",
        scopes=[],
        expires_in_days=7,
        actor=fleet.acme.actor,
    )
    fleet.browser().send(f"/admin/tenants/apitoken/{token.pk}/revoke/", {"reason": "leaked"})
    assert ApiToken.objects.get(pk=token.pk).revoked_at is not None


def test_every_list_is_in_the_navigation_once(fleet: Fleet) -> None:
    page = fleet.browser().get("/admin/").content.decode()
    for model in admin.site._registry:
        meta = model._meta
        assert f'href="/admin/{meta.app_label}/{meta.model_name}/"' in page, meta.label
