"""Do operators change a tenant's envelopes on a page that first says whom that touches?"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse

from gpuaas.console.views import envelopes as views
from gpuaas.kernel import clock
from gpuaas.kernel.models import Event
from tenants.models import Envelope, EnvelopeVersion, QuotaCounter, ResourceClass
from tenants.services.bursts import burst_create
from tenants.services.cohorts import cohort_create, tenant_cohort_set
from tenants.services.envelopes import envelope_set
from tests.builders import CLASS, OPERATOR, a_tenant
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

AUTHORITY = "/console/tenants/acme/authority/"


def terms(**other: str) -> dict[str, str]:
    """A filled form of an envelope."""
    kind = ResourceClass.objects.get(name=CLASS)
    return {"resource_class": str(kind.pk), "nominal_milli": "32", "reason": "agreed", **other}


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def seen_on(answer: Any) -> str:
    """What the page wants to be confirmed."""
    found = re.search(r'name="seen" value="([0-9a-f.]{64})"', text_of(answer))
    assert found is not None
    return found.group(1)


def kept(browser: Browser, form: dict[str, str]) -> HttpResponse:
    """Look at what it touches, then send the same again."""
    look = browser.send(AUTHORITY, form)
    assert look.status_code == 200
    return browser.send(AUTHORITY, {**form, "seen": seen_on(look)})


def test_an_envelope_is_looked_at_first_and_kept_when_it_is_confirmed(fleet: Fleet) -> None:
    browser, before = fleet.browser(), EnvelopeVersion.objects.count()
    look = browser.send(AUTHORITY, terms(nominal_milli="70.5"))
    assert look.status_code == 200
    page = text_of(look)
    assert "Nothing is kept yet" in page
    assert "64 → <b>70.5</b>" in page
    assert "62 → 68.5" in page  # What acme could take at once: all but the 2 that it holds.
    assert 'value="70.5"' in page
    assert EnvelopeVersion.objects.count() == before
    answer = browser.send(AUTHORITY, {**terms(nominal_milli="70.5"), "seen": seen_on(look)})
    assert answer.headers["Location"] == AUTHORITY
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 70_500


def test_what_has_changed_since_the_look_is_looked_at_again(fleet: Fleet) -> None:
    browser, form = fleet.browser(), terms(nominal_milli="70")
    first = seen_on(browser.send(AUTHORITY, form))
    fleet.acme.order(slots=1, name="meanwhile")
    again = browser.send(AUTHORITY, {**form, "seen": first})
    assert "What it touches has changed" in text_of(again)
    assert seen_on(again) != first
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 64_000


def test_what_changes_between_the_look_and_the_lock_is_refused_and_named(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, form = fleet.browser(), terms(nominal_milli="70")
    first = seen_on(browser.send(AUTHORITY, form))

    def beaten(**given: Any) -> object:
        monkeypatch.setattr(views, "envelope_set", envelope_set)
        fleet.acme.order(slots=1, name="meanwhile")
        return envelope_set(**given)

    monkeypatch.setattr(views, "envelope_set", beaten)
    answer = browser.send(AUTHORITY, {**form, "seen": first})
    assert answer.status_code == 409
    page = text_of(answer)
    assert "preview_stale" in page
    assert "held: 3000 in 2" in page
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 64_000
    assert browser.send(AUTHORITY, {**form, "seen": seen_on(answer)}).status_code == 302
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 70_000


@pytest.mark.parametrize(
    ("field", "value"),
    [("nominal_milli", "\uff11\uff12"), ("nominal_milli", "1e3"), ("drain_after_h", "\u0663")],
)
def test_digits_of_other_scripts_are_not_taken_for_numbers(
    fleet: Fleet, field: str, value: str
) -> None:
    answer = fleet.browser().send(AUTHORITY, terms(**{field: value}))
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in text_of(answer)


def test_a_neighbour_that_could_borrow_less_is_named_before(fleet: Fleet) -> None:
    cohort_create(name="lab", actor=OPERATOR)
    globex = a_tenant("globex", envelope_slots=2)
    for tenant in (fleet.acme.tenant, globex.tenant):
        tenant_cohort_set(tenant_id=tenant.pk, cohort="lab", reason="share", actor=OPERATOR)
    envelope_set(
        tenant_id=globex.tenant.pk,
        resource_class=CLASS,
        nominal_milli=2000,
        borrow_milli=50_000,
        reason="may borrow",
        actor=OPERATOR,
    )
    page = text_of(fleet.browser().send(AUTHORITY, terms(nominal_milli="10")))
    # Its own limit is 2 and 50; the lab then has 10 and 2, of which acme took 2.
    assert re.search(r">globex</th><td class=\"num\">52 → 10</td>", page)
    assert "worse" in page


def test_what_an_open_burst_adds_is_counted_and_said(fleet: Fleet) -> None:
    cohort_create(name="lab", actor=OPERATOR)
    acme, now = fleet.acme.tenant, clock.db_now()
    tenant_cohort_set(tenant_id=acme.pk, cohort="lab", reason="share", actor=OPERATOR)
    burst_create(
        tenant_id=acme.pk,
        resource_class=CLASS,
        name="now",
        extra_milli=1000,
        opens_at=now - timedelta(hours=1),
        closes_at=now + timedelta(hours=1),
        actor=OPERATOR,
    )
    page = text_of(fleet.browser().send(AUTHORITY, terms(nominal_milli="0", on_excess="drain")))
    assert "<dt>open bursts add</dt><dd>1</dd>" in page
    # It holds 2: 1 within the burst, 1 beyond.
    assert re.search(r"<dt>held beyond it</dt><dd>.*excess</span> 1</dd>", page)


def test_an_envelope_is_scheduled_shown_as_to_come_and_called_off(fleet: Fleet) -> None:
    browser = fleet.browser()
    kept(browser, terms(effective_from="2099-01-01T00:00+02:00", on_excess="drain"))
    later = EnvelopeVersion.objects.get(applied_at=None)
    assert (later.nominal_milli, later.on_excess) == (32_000, "drain")
    assert later.effective_from.isoformat() == "2098-12-31T22:00:00+00:00"
    assert "to come" in text_of(browser.get(AUTHORITY))
    address = f"{AUTHORITY}{later.pk}/cancel/"
    refused = browser.send(address, {"reason": " "})
    assert refused.status_code == 400
    assert 'id="cancel-reason_error"' in text_of(refused)
    browser.send(address, {"reason": "the contract was not signed"})
    assert "called off" in text_of(browser.get(AUTHORITY))
    twice = browser.send(address, {"reason": "again"})
    assert twice.status_code == 400
    assert "version_in_force" in text_of(twice)


def test_a_version_of_another_tenant_is_not_found_here(fleet: Fleet) -> None:
    foreign = EnvelopeVersion.objects.filter(tenant=fleet.waiting.tenant).first()
    assert foreign is not None
    answer = fleet.browser().send(f"{AUTHORITY}{foreign.pk}/cancel/", {"reason": "x"})
    assert answer.status_code == 404


@pytest.mark.parametrize("amount", ["-1", str(2**63), "NaN", "1e3", "1.0001"])
@pytest.mark.parametrize("field", ["nominal_milli", "borrow_milli", "lend_milli"])
def test_an_amount_at_the_edge_is_refused_beside_its_field_and_nothing_is_lost(
    fleet: Fleet, field: str, amount: str
) -> None:
    before = EnvelopeVersion.objects.count()
    answer = fleet.browser().send(AUTHORITY, terms(**{field: amount, "reason": "as agreed"}))
    assert answer.status_code == 400
    page = text_of(answer)
    assert f'id="id_{field}_error"' in page
    assert f'value="{amount}"' in page
    assert 'value="as agreed"' in page
    assert EnvelopeVersion.objects.count() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_class", "none-such"),
        ("effective_from", "soon"),
        ("on_excess", "explode"),
        ("drain_after_h", "99999"),
        ("reason", ""),
        ("reason", "nul \0 inside"),
        ("reason", "x" * 501),
    ],
)
def test_bad_input_is_told_beside_its_field(fleet: Fleet, field: str, value: str) -> None:
    answer = fleet.browser().send(AUTHORITY, terms(**{field: value}))
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in text_of(answer)


def test_it_lends_an_amount_or_all_and_not_both(fleet: Fleet) -> None:
    browser = fleet.browser()
    both = browser.send(AUTHORITY, terms(lend_milli="2", lend_all="on"))
    assert 'id="id_lend_milli_error"' in text_of(both)
    kept(browser, terms(lend_milli="2"))
    assert Envelope.objects.get(tenant=fleet.acme.tenant).lend_milli == 2000
    kept(browser, terms(lend_all="on"))
    assert Envelope.objects.get(tenant=fleet.acme.tenant).lend_milli is None


def test_less_than_is_held_needs_a_policy_and_the_excess_has_its_own_column(fleet: Fleet) -> None:
    browser = fleet.browser()
    refused = browser.send(AUTHORITY, terms(nominal_milli="1"))
    assert refused.status_code == 400
    assert "envelope_below_use" in text_of(refused)
    assert 'id="id_on_excess_error"' in text_of(refused)
    kept(browser, terms(nominal_milli="1", on_excess="drain", drain_after_h="2"))
    counter = QuotaCounter.objects.get(tenant=fleet.acme.tenant)
    assert (counter.limit_milli, counter.grandfathered_milli) == (1000, 1000)
    assert counter.drain_at is not None
    version = EnvelopeVersion.objects.filter(tenant=fleet.acme.tenant).latest("version")
    assert version.drain_after_s == 7200
    page = text_of(browser.get(AUTHORITY))
    assert re.search(r'<td class="num">2</td><td class="num"><b>1</b></td>', page)
    assert "over quota" in text_of(browser.get("/console/tenants/"))


def test_the_form_begins_from_the_class_that_is_to_be_changed(fleet: Fleet) -> None:
    page = text_of(fleet.browser().get(f"{AUTHORITY}?class={CLASS}"))
    assert re.search(r'<input type="text" name="nominal_milli" value="64"', page)


def test_a_tenant_decides_nothing_of_this(fleet: Fleet) -> None:
    browser, before = Browser.of(fleet.acme.owner), Event.objects.count()
    for path in ("authority/", "caps/", "bursts/", "catalogue/", "members/", "end/delete/"):
        address = f"/console/tenants/acme/{path}"
        assert browser.send(address, {"reason": "x", "confirm": "acme"}).status_code == 404
    for path in ("policies/", "tiers/new/", "cohorts/", "tiers/of/standard/"):
        assert browser.send(f"/console/{path}", {"reason": "x"}).status_code == 404
    assert Event.objects.count() == before
