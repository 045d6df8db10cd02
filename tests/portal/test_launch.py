"""Does the button do exactly what the plan says, once?"""

from __future__ import annotations

import re

import pytest

from admission.models import AdmissionRequest
from placement.models import Allocation
from tests.portal.conftest import World


def plan_form(html: str) -> dict[str, str]:
    """The hidden fields of the plan's own form."""
    form = re.search(r'<form method="post" action="[^"]*/launch/">(.*?)</form>', html, re.S)
    assert form is not None
    return dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form.group(1)))


def test_the_plan_shows_price_place_and_envelope_and_its_button_sends_it(world: World) -> None:
    browser = world.browser("member")
    html = browser.get(world.url("launch/?sku=h100.slice&slots=3&name=job")).content.decode()
    assert "fits now" in html
    assert "$6.00" in html
    assert "$4,380.00" in html
    assert "one node, 1 NUMA node" in html
    assert re.search(r"2 → <b>5</b> of 64", html)
    fields = plan_form(html)
    assert (fields["sku"], fields["slots"], fields["name"]) == ("h100.slice", "3", "job")
    fields.pop("csrfmiddlewaretoken")
    answer = browser.send(world.url("launch/"), fields)
    row = Allocation.objects.get(name="job")
    assert answer.headers["Location"] == world.url(f"allocations/{row.pk}/")
    assert (row.slots, row.price_hour_micro) == (3, 6_000_000)


def test_a_double_click_leases_once(world: World) -> None:
    browser = world.browser()
    html = browser.get(world.url("launch/?sku=h100.slice&slots=1")).content.decode()
    fields = plan_form(html)
    fields.pop("csrfmiddlewaretoken")
    first = browser.send(world.url("launch/"), fields)
    again = browser.send(world.url("launch/"), fields)
    assert first.headers["Location"] == again.headers["Location"]
    assert Allocation.objects.filter(tenant=world.acme.tenant).count() == 2


def test_the_same_key_with_another_wish_is_refused(world: World) -> None:
    browser = world.browser()
    wish = {"sku": "h100.slice", "slots": "1", "once": "one-key", "project": "default"}
    browser.send(world.url("launch/"), wish)
    answer = browser.send(world.url("launch/"), {**wish, "slots": "2"})
    assert answer.status_code == 422
    assert "idempotency_key_reused" in answer.content.decode()
    assert Allocation.objects.filter(tenant=world.acme.tenant).count() == 2


def test_a_refusal_is_kept_and_leads_to_its_decision(world: World) -> None:
    browser = world.browser()
    wish = {"sku": "h100.slice", "slots": "8", "once": "k", "project": "default"}
    answer = browser.send(world.url("launch/"), wish)
    request = AdmissionRequest.objects.get(state="denied")
    assert answer.headers["Location"] == world.url(f"requests/{request.pk}/")
    html = browser.get(answer.headers["Location"]).content.decode()
    assert "sku_unavailable" in html
    assert "needs 8 slots on one node" in html
    assert "Plan 5 slots" in html
    assert "Plan it with waiting" in html


def test_a_wish_that_may_wait_queues_and_can_be_withdrawn(world: World) -> None:
    browser = world.browser()
    html = browser.get(world.url("launch/?sku=h100.slice&slots=8&wait=1")).content.decode()
    assert "waits in the queue" in html
    fields = plan_form(html)
    fields.pop("csrfmiddlewaretoken")
    browser.send(world.url("launch/"), fields)
    request = AdmissionRequest.objects.get(state="queued")
    page = browser.get(world.url(f"requests/{request.pk}/")).content.decode()
    assert "first of your tenant" in page
    browser.send(world.url(f"requests/{request.pk}/withdraw/"))
    request.refresh_from_db()
    assert request.state == "withdrawn"


def test_more_than_the_envelope_is_planned_with_the_numbers(world: World) -> None:
    world.acme.tenant.counters.update(limit_milli=4000)
    world.acme.tenant.envelopes.update(nominal_milli=4000)
    html = world.browser().get(world.url("launch/?sku=h100.slice&slots=3")).content.decode()
    assert "envelope_exceeded" in html
    assert re.search(r"2 → <b>5</b> of 4", html)
    assert 'id="send-plan"' not in html


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sku=nothing", "sku_unknown"),
        ("sku=h100.slice&slots=99", "slots_out_of_range"),
        ("sku=h100.slice&slots=two", "whole number"),
        ("sku=h100.slice&slots=1&key=zzz", "choose from the list"),
        ("sku=h100.slice&slots=1&image=nothing", "image_unknown"),
        ("sku=h100.node&slots=3", "leave slots out"),
    ],
)
def test_a_wish_that_cannot_be_is_told_beside_the_form(world: World, query: str, said: str) -> None:
    answer = world.browser().get(world.url(f"launch/?{query}"))
    html = answer.content.decode()
    assert answer.status_code == 200
    assert said in html
    assert 'id="send-plan"' not in html


def test_a_viewer_may_plan_but_not_lease(world: World) -> None:
    browser = world.browser("viewer")
    html = browser.get(world.url("launch/?sku=h100.slice&slots=1")).content.decode()
    assert 'id="send-plan"' not in html
    wish = {"sku": "h100.slice", "slots": "1", "once": "k", "project": "default"}
    assert browser.send(world.url("launch/"), wish).status_code == 403
    assert Allocation.objects.filter(tenant=world.acme.tenant).count() == 1


def test_a_script_gets_only_the_plan(world: World) -> None:
    answer = world.browser().get(
        world.url("launch/?sku=h100.slice&slots=1"), headers={"HX-Request": "true"}
    )
    html = answer.content.decode()
    assert html.lstrip().startswith('<section class="card stack plan" id="plan"')
    assert "HX-Request" in answer.headers["Vary"]
