"""Does the portal show quota as it is shared, and let people ask for more?"""

from __future__ import annotations

import pytest

from admission.models import AdmissionRequest
from tenants.models import QuotaIncrease, ResourceClass
from tenants.services import cohorts, envelopes
from tests.builders import OPERATOR
from tests.portal.conftest import Browser, World


def wish(world: World, units: str = "96", why: str = "a larger run") -> dict[str, str]:
    """A filled form."""
    kind = ResourceClass.objects.get(name="h100-slot")
    return {
        "resource_class": str(kind.pk),
        "nominal_asked_milli": units,
        "justification": why,
    }


def test_the_home_page_draws_what_is_borrowed_and_lent(world: World) -> None:
    for slug, owner in (("lab", world.acme), ("lab", world.globex)):
        if owner is world.acme:
            cohorts.cohort_create(name=slug, actor=OPERATOR)
        cohorts.tenant_cohort_set(
            tenant_id=owner.tenant.pk, cohort=slug, reason="shared", actor=OPERATOR
        )
    envelopes.envelope_set(
        tenant_id=world.acme.tenant.pk,
        resource_class="h100-slot",
        nominal_milli=1000,
        borrow_milli=1000,
        reason="less",
        actor=OPERATOR,
    )
    html = world.browser().get(world.url()).content.decode()
    assert 'class="borrowed" x="500" width="500"' in html
    assert "1 borrowed" in html
    theirs = Browser.of(world.globex.owner).get(world.url(tenant="globex"))
    assert 'class="lent"' in theirs.content.decode()


def test_a_wish_is_asked_seen_and_withdrawn(world: World) -> None:
    browser = world.browser("admin")
    answer = browser.send(world.url("quota/"), wish(world))
    assert answer.headers["Location"] == world.url("quota/")
    asked = QuotaIncrease.objects.get()
    assert (asked.nominal_asked_milli, asked.state) == (96_000, "asked")
    assert "a larger run" in browser.get(world.url("quota/")).content.decode()
    browser.send(world.url(f"quota/{asked.pk}/withdraw/"))
    assert QuotaIncrease.objects.get().state == "withdrawn"


@pytest.mark.parametrize("units", ["-1", str(2**63), "NaN", "1e3", "0", "1.0001", ""])
def test_an_amount_at_the_edge_is_refused_beside_its_field(world: World, units: str) -> None:
    answer = world.browser().send(world.url("quota/"), wish(world, units))
    assert answer.status_code == 400
    html = answer.content.decode()
    assert 'id="id_nominal_asked_milli_error"' in html
    assert not QuotaIncrease.objects.exists()


def test_who_may_not_ask_finds_no_form_and_is_refused(world: World) -> None:
    for role in ("member", "viewer", "billing"):
        browser = world.browser(role)
        assert "Ask the operators" not in browser.get(world.url("quota/")).content.decode()
        assert browser.send(world.url("quota/"), wish(world)).status_code == 403
    assert not QuotaIncrease.objects.exists()


def test_half_a_unit_is_an_amount(world: World) -> None:
    world.browser().send(world.url("quota/"), wish(world, "64.5"))
    assert QuotaIncrease.objects.get().nominal_asked_milli == 64_500


def test_anothers_wish_is_not_there(world: World) -> None:
    world.browser().send(world.url("quota/"), wish(world))
    path = world.url(f"quota/{QuotaIncrease.objects.get().pk}/withdraw/", tenant="globex")
    assert Browser.of(world.globex.owner).send(path).status_code == 404
    assert QuotaIncrease.objects.get().state == "asked"


def test_a_wish_leads_to_its_decision_beside_what_is_free(world: World) -> None:
    browser = world.browser("admin")
    browser.send(world.url("quota/"), wish(world))
    request = AdmissionRequest.objects.get(action="quota.increase")
    html = browser.get(world.url("quota/")).content.decode()
    assert world.url(f"requests/{request.pk}/") in html
    assert "free in the fleet now" in html
    page = browser.get(world.url(f"requests/{request.pk}/")).content.decode()
    assert "a whole node" not in page
    assert "quota increase" in page
    browser.send(world.url(f"requests/{request.pk}/withdraw/"))
    assert QuotaIncrease.objects.get().state == "withdrawn"
