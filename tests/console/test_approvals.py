"""Does the inbox hold all that waits for an operator, with its numbers, and answer in place?"""

from __future__ import annotations

import re

import pytest

from admission.models import AdmissionRequest
from admission.services.wishes import increase_ask, increase_withdraw
from placement.models import CleanupOverride
from tenants.models import Envelope, QuotaIncrease, Tenant
from tests.builders import CLASS
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

INBOX = "/console/approvals/"


def waiting_in(page: str) -> int:
    """The number beside the inbox in the navigation."""
    found = re.search(r'title="Approvals">.*?class="count[^>]*>(\d+)<', page)
    return int(found.group(1)) if found else 0


@pytest.fixture
def wish(fleet: Fleet) -> QuotaIncrease:
    """Acme asks for more than the fleet has."""
    return increase_ask(
        tenant_id=fleet.acme.tenant.pk,
        resource_class=CLASS,
        nominal_asked_milli=96_000,
        justification="a larger run",
        actor=fleet.acme.actor,
    )


def test_a_wish_is_granted_beside_what_can_be_delivered(fleet: Fleet, wish: QuotaIncrease) -> None:
    browser = fleet.browser()
    page = browser.get(INBOX).content.decode()
    assert "more promised than there is" in page
    assert "<dt>Can be delivered</dt><dd>8 " in page
    browser.send(
        f"{INBOX}grant-wish:{wish.pk}/",
        {"nominal_granted_milli": "70.5", "reason": "half of it"},
    )
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 70_500
    asked = AdmissionRequest.objects.get(subject_id=wish.pk)
    assert asked.state == "admitted"


@pytest.mark.parametrize("amount", ["-1", str(2**63), "NaN", "1e3", "0", "1.0001"])
def test_an_amount_at_the_edge_is_refused_in_the_inbox(
    fleet: Fleet, wish: QuotaIncrease, amount: str
) -> None:
    answer = fleet.browser().send(
        f"{INBOX}grant-wish:{wish.pk}/", {"nominal_granted_milli": amount, "reason": "so be it"}
    )
    page = answer.content.decode()
    assert answer.status_code == 400
    assert f'id="grant-wish-{wish.pk}-nominal_granted_milli_error"' in page
    assert f'value="{amount}"' in page
    assert 'value="so be it"' in page
    wish.refresh_from_db()
    assert wish.state == "asked"


def test_a_wish_is_refused_with_the_reason_that_the_tenant_reads(
    fleet: Fleet, wish: QuotaIncrease
) -> None:
    browser, address = fleet.browser(), f"{INBOX}refuse-wish:{wish.pk}/"
    silent = browser.send(address, {"reason": " "})
    assert silent.status_code == 400
    assert f'id="refuse-wish-{wish.pk}-reason_error"' in silent.content.decode()
    browser.send(address, {"reason": "next quarter"})
    wish.refresh_from_db()
    assert (wish.state, wish.decision_reason) == ("refused", "next quarter")


def test_an_answer_to_what_was_withdrawn_meanwhile_says_so(
    fleet: Fleet, wish: QuotaIncrease
) -> None:
    increase_withdraw(increase_id=wish.pk, actor=fleet.acme.actor)
    answer = fleet.browser().send(f"{INBOX}grant-wish:{wish.pk}/", {"reason": "granted"})
    assert answer.status_code == 400
    assert "transition_refused" in answer.content.decode()
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 64_000


@pytest.mark.parametrize(("action", "state"), [("approve", "active"), ("reject", "rejected")])
def test_a_signup_is_answered_in_the_inbox(fleet: Fleet, action: str, state: str) -> None:
    browser, pk = fleet.browser(), fleet.waiting.tenant.pk
    assert "owner@initech.test" in browser.get(INBOX).content.decode()
    silent = browser.send(f"{INBOX}{action}-tenant:{pk}/", {})
    assert f'id="{action}-tenant-{pk}-reason_error"' in silent.content.decode()
    answer = browser.send(f"{INBOX}{action}-tenant:{pk}/", {"reason": "we spoke"})
    assert answer.headers["Location"] == INBOX
    assert Tenant.objects.get(slug="initech").state == state
    assert "None waits. Who signs up" in browser.get(INBOX).content.decode()


def test_an_override_is_approved_by_another_and_says_what_is_not_proved(fleet: Fleet) -> None:
    first, second = fleet.browser(), Browser.of(fleet.second)
    first.send(
        f"/console/allocations/{fleet.blocked.pk}/request-override/",
        {"reason": "the host is scrapped"},
    )
    mine = first.get(INBOX).content.decode()
    assert "You asked for it, so another operator has to approve it." in mine
    assert "gpu scrubbed: not reported" in mine
    assert waiting_in(mine) == 2  # The override, and the tenant that signed up.
    address = f"{INBOX}approve-override:{fleet.blocked.pk}/"
    own = first.send(address, {"reason": "go"})
    assert own.status_code == 400
    assert "second_person_needed" in own.content.decode()
    theirs = second.get(INBOX).content.decode()
    assert "You asked for it" not in theirs
    assert "WITHOUT proof" in theirs
    second.send(address, {"reason": "agreed"})
    fleet.blocked.refresh_from_db()
    assert fleet.blocked.state == "released"
    approved = CleanupOverride.objects.get().approved_by
    assert approved is not None
    assert approved["name"] == "second@platform.test"
    assert "None. An override is asked for" in second.get(INBOX).content.decode()


def test_a_cleanup_is_tried_again_instead_of_an_override(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send(f"/console/allocations/{fleet.blocked.pk}/request-override/", {"reason": "old"})
    browser.send(f"{INBOX}retry-cleanup:{fleet.blocked.pk}/", {"reason": "scrubber mended"})
    fleet.host.work()
    fleet.blocked.refresh_from_db()
    assert fleet.blocked.state == "released"
    assert CleanupOverride.objects.get().approved_at is None
    assert "None. An override is asked for" in browser.get(INBOX).content.decode()


def test_traces_on_a_slot_are_answered_in_the_inbox_too(fleet: Fleet) -> None:
    fleet.host.report(residue={5: "left-by-somebody"})
    browser, other = fleet.browser(), Browser.of(fleet.second)
    slot = fleet.host.node.slots.get(index=5)
    browser.send(f"/console/nodes/host-1/slots/{slot.pk}/request-override/", {"reason": "swapped"})
    page = other.get(INBOX).content.decode()
    assert "traces were found" in page
    free = fleet.host.fresh().free_count
    other.send(f"{INBOX}approve-slot-override:{slot.pk}/", {"reason": "seen it"})
    assert fleet.host.fresh().free_count == free + 1


def test_an_empty_inbox_says_where_things_come_from(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send(f"{INBOX}reject-tenant:{fleet.waiting.tenant.pk}/", {"reason": "unknown"})
    page = browser.get(INBOX).content.decode()
    for words in ("None waits. Who signs up", "asks on its quota page", "None. A deletion begins"):
        assert words in page


def test_an_answer_that_does_not_exist_does_nothing(fleet: Fleet) -> None:
    answer = fleet.browser().send(f"{INBOX}explode:{fleet.waiting.tenant.pk}/", {"reason": "x"})
    assert answer.status_code == 404
