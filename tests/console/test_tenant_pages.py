"""Do caps, bursts, catalogue, members, tier, cohort and end of a tenant change on its pages?"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.kernel import clock
from placement.models import Node
from tenants.models import (
    BreakGlass,
    BurstRule,
    Entitlement,
    Invitation,
    Member,
    QuotaCounter,
    ResourceClass,
    Sku,
    Tenant,
    TenantCaps,
)
from tenants.services.bursts import burst_create
from tenants.services.caps import caps_set
from tenants.services.cohorts import cohort_create, tenant_cohort_set
from tenants.services.deletion import tenant_delete_finish
from tenants.services.tiers import tier_create
from tests.builders import CLASS, OPERATOR, a_tenant
from tests.console.conftest import Fleet

ACME = "/console/tenants/acme/"
CAPS = {
    "allocations": "20",
    "slots_per_request": "4",
    "waiting": "0",
    "best_band": "1",
    "shapes": "gpu_slice",
    "zones": "eu-1, eu-2,",
    "spend_soft_micro": "2000",
    "spend_hard_micro": "2500.50",
    "seen_version": "0",
    "reason": "contract",
}


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.fixture
def sharing(fleet: Fleet) -> Fleet:
    """Acme is in a cohort."""
    cohort_create(name="lab", title="The lab", actor=OPERATOR)
    tenant_cohort_set(tenant_id=fleet.acme.tenant.pk, cohort="lab", reason="share", actor=OPERATOR)
    return fleet


# Caps


def test_a_zone_is_named_and_not_carried_out(fleet: Fleet) -> None:
    Node.objects.filter(pk=fleet.verifying.pk).update(zone="<script>eu-1</script>")
    page = text_of(fleet.browser().get(f"{ACME}caps/"))
    assert "<script>eu-1" not in page
    assert "There are &lt;script&gt;eu-1" in page


def test_every_cap_is_set_shown_beside_what_counts_and_lifted(fleet: Fleet) -> None:
    browser = fleet.browser()
    answer = browser.send(f"{ACME}caps/", CAPS)
    assert answer.headers["Location"] == f"{ACME}caps/"
    row = TenantCaps.objects.get(tenant=fleet.acme.tenant)
    assert (row.allocations, row.slots_per_request, row.waiting, row.best_band) == (20, 4, 0, 1)
    assert (row.shapes, row.zones) == (["gpu_slice"], ["eu-1", "eu-2"])
    assert (row.spend_soft_micro, row.spend_hard_micro) == (2_000_000_000, 2_500_500_000)
    page = text_of(browser.get(f"{ACME}caps/"))
    assert '<td class="num">20</td><td class="num">2</td>' in page
    assert 'value="2500.5"' in page
    assert "$2,500.50" in page
    browser.send(f"{ACME}caps/", {"seen_version": "1", "reason": "a new contract"})
    row.refresh_from_db()
    assert (row.allocations, row.waiting, row.spend_hard_micro) == (None, None, None)
    assert (row.shapes, row.zones) == ([], [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("allocations", "-1"),
        ("allocations", str(2**63)),
        ("allocations", "1.5"),
        ("slots_per_request", "0"),
        ("slots_per_request", "99999"),
        ("waiting", "NaN"),
        ("best_band", "1001"),
        ("shapes", "sphere"),
        ("zones", "x" * 41),
        ("spend_soft_micro", "-5"),
        ("spend_hard_micro", "1e9"),
        ("spend_hard_micro", "1999"),
        ("reason", " "),
    ],
)
def test_a_bad_cap_is_refused_beside_its_field_and_nothing_is_lost(
    fleet: Fleet, field: str, value: str
) -> None:
    answer = fleet.browser().send(f"{ACME}caps/", {**CAPS, field: value})
    page = text_of(answer)
    assert answer.status_code == 400
    # The soft cap is what is wrong when it is above the hard one.
    beside = "spend_soft_micro" if value == "1999" else field
    if field == "shapes":
        assert "sphere is not one of the available choices" in page
    else:
        assert f'id="id_{beside}_error"' in page
    assert field == "zones" or 'value="eu-1, eu-2,"' in page
    assert not TenantCaps.objects.exists()


def test_caps_that_somebody_else_changed_meanwhile_are_shown_first(fleet: Fleet) -> None:
    caps_set(tenant_id=fleet.acme.tenant.pk, changes={"allocations": 7}, reason="x", actor=OPERATOR)
    browser = fleet.browser()
    answer = browser.send(f"{ACME}caps/", CAPS)
    page = text_of(answer)
    assert answer.status_code == 409
    assert '<td class="num">7</td>' in page
    assert 'name="allocations" value="20"' in page
    assert 'name="seen_version" value="1"' in page
    assert TenantCaps.objects.get().allocations == 7
    browser.send(f"{ACME}caps/", {**CAPS, "seen_version": "1"})
    assert TenantCaps.objects.get().allocations == 20


# Bursts


def burst(**other: str) -> dict[str, str]:
    kind = ResourceClass.objects.get(name=CLASS)
    now = clock.db_now()
    return {
        "name": "Quarter end",
        "resource_class": str(kind.pk),
        "extra_milli": "4",
        "opens_at": (now - timedelta(hours=1)).isoformat(),
        "closes_at": (now + timedelta(hours=1)).isoformat(),
        "every_s": "86400",
        "on_close": "drain",
        "reason": "contract",
        **other,
    }


def test_a_window_is_kept_opens_and_is_ended_with_what_happens_then(sharing: Fleet) -> None:
    browser = sharing.browser()
    answer = browser.send(f"{ACME}bursts/", burst())
    assert answer.headers["Location"] == f"{ACME}bursts/"
    rule = BurstRule.objects.get()
    assert (rule.state, rule.extra_milli, rule.every_s, rule.on_close) == (
        "open",
        4000,
        86_400,
        "drain",
    )
    page = text_of(browser.get(f"{ACME}bursts/"))
    assert "It closes now, and the excess drains." in page
    silent = browser.send(f"{ACME}bursts/{rule.pk}/end/", {"reason": ""})
    assert silent.status_code == 400
    assert 'id="end-reason_error"' in text_of(silent)
    browser.send(f"{ACME}bursts/{rule.pk}/end/", {"reason": "over"})
    rule.refresh_from_db()
    assert rule.state == "ended"


@pytest.mark.parametrize(
    ("field", "value", "beside"),
    [
        ("extra_milli", "0", "extra_milli"),
        ("extra_milli", "-1", "extra_milli"),
        ("closes_at", "2020-01-01 00:00", "closes_at"),
        ("opens_at", "at noon", "opens_at"),
        ("every_s", "60", "every_s"),
        ("on_close", "explode", "on_close"),
        ("name", "\u202e", "name"),
        ("reason", "", "reason"),
    ],
)
def test_a_bad_window_is_refused_beside_its_field(
    sharing: Fleet, field: str, value: str, beside: str
) -> None:
    answer = sharing.browser().send(f"{ACME}bursts/", burst(**{field: value}))
    assert answer.status_code == 400
    assert f'id="id_{beside}_error"' in text_of(answer)
    assert not BurstRule.objects.exists()


def test_without_a_cohort_the_page_says_where_to_get_one(fleet: Fleet) -> None:
    browser = fleet.browser()
    assert "Put it into one first" in text_of(browser.get(f"{ACME}bursts/"))
    answer = browser.send(f"{ACME}bursts/", burst())
    assert answer.status_code == 400
    assert not BurstRule.objects.exists()


def test_a_window_of_another_tenant_is_not_ended_from_here(sharing: Fleet) -> None:
    other = a_tenant("globex")
    tenant_cohort_set(tenant_id=other.tenant.pk, cohort="lab", reason="share", actor=OPERATOR)
    now = clock.db_now()
    foreign = burst_create(
        tenant_id=other.tenant.pk,
        resource_class=CLASS,
        name="theirs",
        extra_milli=1000,
        opens_at=now + timedelta(days=1),
        closes_at=now + timedelta(days=2),
        actor=OPERATOR,
    )
    answer = sharing.browser().send(f"{ACME}bursts/{foreign.pk}/end/", {"reason": "x"})
    assert answer.status_code == 404


# Catalogue


def test_the_catalogue_is_narrowed_a_sku_granted_and_taken_away(fleet: Fleet) -> None:
    browser = fleet.browser()
    page = text_of(browser.get(f"{ACME}catalogue/"))
    assert "2 of 2 published SKUs may not be asked for: h100.node, h100.slice" in page
    silent = browser.send(f"{ACME}catalogue/", {"catalogue": "listed"})
    assert 'id="choose-reason_error"' in text_of(silent)
    browser.send(f"{ACME}catalogue/", {"catalogue": "listed", "reason": "contract"})
    assert Tenant.objects.get(slug="acme").catalogue == "listed"
    sku = Sku.objects.get(name="h100.slice")
    browser.send(
        f"{ACME}catalogue/grant/",
        {"sku": str(sku.pk), "until": "2099-01-01T00:00+02:00", "reason": "trial"},
    )
    row = Entitlement.objects.get()
    assert row.until is not None
    assert row.until.isoformat() == "2098-12-31T22:00:00+00:00"
    assert "may be asked for" in text_of(browser.get(f"{ACME}catalogue/"))
    address = f"{ACME}catalogue/{row.pk}/revoke/"
    assert 'id="revoke-reason_error"' in text_of(browser.send(address, {}))
    browser.send(address, {"reason": "trial over"})
    assert not Entitlement.objects.exists()
    assert browser.send(address, {"reason": "again"}).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [("sku", "none"), ("until", "2020-01-01 00:00"), ("until", "later"), ("reason", "")],
)
def test_a_bad_grant_is_refused_beside_its_field(fleet: Fleet, field: str, value: str) -> None:
    form = {"sku": str(Sku.objects.get(name="h100.slice").pk), "reason": "trial", field: value}
    answer = fleet.browser().send(f"{ACME}catalogue/grant/", form)
    assert answer.status_code == 400
    assert f'id="grant-{field}_error"' in text_of(answer)
    assert not Entitlement.objects.exists()


def test_a_catalogue_that_there_is_not_is_refused(fleet: Fleet) -> None:
    answer = fleet.browser().send(f"{ACME}catalogue/", {"catalogue": "none", "reason": "x"})
    assert answer.status_code == 400
    assert 'id="choose-catalogue_error"' in text_of(answer)


# Members


def test_a_member_gets_another_role_and_leaves(fleet: Fleet) -> None:
    browser, member = fleet.browser(), Member.objects.get(user=fleet.viewer)
    browser.send(f"{ACME}members/{member.pk}/role/", {"role": "admin"})
    member.refresh_from_db()
    assert member.role == "admin"
    silent = browser.send(f"{ACME}members/{member.pk}/remove/", {})
    assert f'id="remove-{member.pk}-reason_error"' in text_of(silent)
    browser.send(f"{ACME}members/{member.pk}/remove/", {"reason": "left the firm"})
    assert not Member.objects.filter(pk=member.pk).exists()


def test_the_last_owner_stays_and_the_page_says_why(fleet: Fleet) -> None:
    browser, owner = fleet.browser(), Member.objects.get(tenant=fleet.acme.tenant, role="owner")
    for action, form in (("role", {"role": "viewer"}), ("remove", {"reason": "gone"})):
        answer = browser.send(f"{ACME}members/{owner.pk}/{action}/", form)
        assert answer.status_code == 400
        assert "last_owner" in text_of(answer)
    owner.refresh_from_db()
    assert owner.role == "owner"
    strange = browser.send(f"{ACME}members/{owner.pk}/role/", {"role": "emperor"})
    assert "emperor is not one of the available choices" in text_of(strange)
    assert browser.send(f"{ACME}members/{owner.pk}/explode/", {}).status_code == 404


def test_an_account_joins_and_an_unknown_address_is_told_beside_it(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send(f"{ACME}members/", {"email": "owner@initech.test", "role": "member"})
    assert Member.objects.filter(tenant=fleet.acme.tenant, role="member").exists()
    for address in ("nobody@nowhere.test", "not an address", ""):
        answer = browser.send(f"{ACME}members/", {"email": address, "role": "member"})
        assert answer.status_code == 400
        assert 'id="id_email_error"' in text_of(answer)


def test_open_invitations_are_listed(fleet: Fleet) -> None:
    Invitation.objects.create(
        tenant=fleet.acme.tenant,
        email="soon@acme.test",
        role="member",
        digest=b"x" * 32,
        expires_at=clock.db_now() + timedelta(days=1),
    )
    assert "soon@acme.test" in text_of(fleet.browser().get(f"{ACME}members/"))


def test_a_member_of_another_tenant_is_not_touched_from_here(fleet: Fleet) -> None:
    foreign = Member.objects.get(tenant=fleet.waiting.tenant)
    answer = fleet.browser().send(f"{ACME}members/{foreign.pk}/remove/", {"reason": "x"})
    assert answer.status_code == 404
    assert Member.objects.filter(pk=foreign.pk).exists()


# Tier and cohort


def test_a_tier_is_given_only_as_it_was_looked_at(fleet: Fleet) -> None:
    tier_create(
        name="gold", title="Gold", terms={"isolation": "node"}, reason="sold", actor=OPERATOR
    )
    browser, look = fleet.browser(), f"{ACME}standing/?tier=gold"
    page = text_of(browser.get(look))
    assert "too little isolation" in page
    form = {"wanted": "gold", "seen": "0" * 64, "reason": "bought"}
    stale = browser.send(f"{ACME}standing/tier/", form)
    assert stale.headers["Location"] == look
    assert Tenant.objects.get(slug="acme").tier.name != "gold"
    seen = re.findall(r'name="seen" value="([0-9a-f]{64})"', page)[0]
    silent = browser.send(f"{ACME}standing/tier/", {**form, "seen": seen, "reason": ""})
    assert 'id="tier-reason_error"' in text_of(silent)
    browser.send(f"{ACME}standing/tier/", {**form, "seen": seen})
    assert Tenant.objects.get(slug="acme").tier.name == "gold"
    assert "bought" in text_of(browser.get(f"{ACME}standing/"))
    assert browser.get(f"{ACME}standing/?tier=none-such").status_code == 404


def test_a_tenant_moves_into_a_cohort_as_it_was_looked_at(fleet: Fleet) -> None:
    cohort_create(name="lab", actor=OPERATOR)
    browser, look = fleet.browser(), f"{ACME}standing/?cohort=lab"
    seen = re.findall(r'name="seen" value="([0-9a-f]{64})"', text_of(browser.get(look)))[0]
    form = {"wanted": "lab", "seen": "f" * 64, "reason": "they share"}
    assert browser.send(f"{ACME}standing/cohort/", form).headers["Location"] == look
    assert Tenant.objects.get(slug="acme").cohort is None
    browser.send(f"{ACME}standing/cohort/", {**form, "seen": seen})
    assert QuotaCounter.objects.get(tenant=fleet.acme.tenant).cohort is not None
    out = text_of(browser.get(f"{ACME}standing/?cohort=-"))
    seen = re.findall(r'name="seen" value="([0-9a-f]{64})"', out)[0]
    browser.send(f"{ACME}standing/cohort/", {"wanted": "-", "seen": seen, "reason": "alone"})
    assert Tenant.objects.get(slug="acme").cohort is None
    assert browser.get(f"{ACME}standing/?cohort=none-such").status_code == 404
    assert browser.send(f"{ACME}standing/explode/", form).status_code == 404


# Suspension and end


def test_the_suspensions_policy_is_chosen_and_used_with_a_reason(fleet: Fleet) -> None:
    browser = fleet.browser()
    for action in ("choose", "suspend"):
        silent = browser.send(f"{ACME}end/{action}/", {"suspension": "release"})
        assert f'id="{action}-reason_error"' in text_of(silent)
        strange = browser.send(f"{ACME}end/{action}/", {"suspension": "burn", "reason": "x"})
        assert f'id="{action}-suspension_error"' in text_of(strange)
    browser.send(f"{ACME}end/choose/", {"suspension": "release", "reason": "contract"})
    assert Tenant.objects.get(slug="acme").suspension == "release"
    browser.send(f"{ACME}end/suspend/", {"suspension": "keep", "reason": "unpaid"})
    tenant = Tenant.objects.get(slug="acme")
    assert (tenant.state, tenant.suspension) == ("suspended", "keep")
    assert "Resume" in text_of(browser.get(f"{ACME}end/"))


def test_a_deletion_is_confirmed_by_name_and_shows_what_it_still_waits_for(fleet: Fleet) -> None:
    browser = fleet.browser()
    wrong = browser.send(f"{ACME}end/delete/", {"confirm": "initech", "reason": "closed"})
    assert wrong.status_code == 400
    assert "Type acme to confirm; nothing has happened." in text_of(wrong)
    assert 'value="closed"' in text_of(wrong)
    assert Tenant.objects.get(slug="acme").state == "active"
    browser.send(f"{ACME}end/delete/", {"confirm": "acme", "reason": "closed"})
    assert Tenant.objects.get(slug="acme").state == "deleting"
    page = text_of(browser.get(f"{ACME}end/"))
    assert re.search(r"Live claims of its own</dt><dd><b>2</b>.*waited for", page)
    assert "they do not hold the tenant's end up" in page
    inbox = text_of(browser.get("/console/approvals/"))
    assert re.search(r">acme</a></th>.*<td class=\"num\">2</td><td class=\"num\">1</td>", inbox)
    twice = browser.send(f"{ACME}end/delete/", {"confirm": "acme", "reason": "closed"})
    assert twice.status_code == 400
    QuotaCounter.objects.filter(tenant=fleet.acme.tenant).update(used_milli=0)
    tenant_delete_finish(tenant_id=fleet.acme.tenant.pk, actor=OPERATOR)
    assert "It has ended." in text_of(browser.get(f"{ACME}end/"))


@pytest.mark.parametrize(
    "path", ["caps/", "bursts/", "catalogue/", "members/", "end/", "standing/"]
)
def test_a_tenant_that_there_is_not_is_told_on_each_page(fleet: Fleet, path: str) -> None:
    answer = fleet.browser().get(f"/console/tenants/nobody/{path}")
    assert answer.status_code == 404
    assert "not_found" in text_of(answer)


# Break-glass


@pytest.mark.parametrize(
    ("field", "value"), [("reason", ""), ("reason", "because"), ("minutes", "600")]
)
def test_a_bad_window_into_a_tenant_is_refused_beside_its_field(
    fleet: Fleet, field: str, value: str
) -> None:
    form = {"reason": "ticket 4711: the page is empty", "minutes": "15", field: value}
    answer = fleet.browser().send(f"{ACME}break-glass/", form)
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in text_of(answer)
    assert not BreakGlass.objects.exists()


def test_a_second_window_into_a_tenant_is_refused_with_the_way_out(fleet: Fleet) -> None:
    browser = fleet.browser()
    form = {"reason": "ticket 4711: the page is empty", "minutes": "15"}
    browser.send(f"{ACME}break-glass/", form)
    twice = browser.send(f"{ACME}break-glass/", form)
    assert twice.status_code == 400
    assert "break_glass_open" in text_of(twice)
    assert "go in" in text_of(twice)
    assert BreakGlass.objects.count() == 1
