"""Does the page of an allocation tell its truth, and give it back when asked?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db.models import F

from gpuaas.kernel import clock
from gpuaas.portal.costs import cost_so_far
from placement.models import Allocation
from tests.portal.conftest import World


def test_the_page_has_phase_four_states_connection_timeline_and_decision(world: World) -> None:
    html = world.browser("viewer").get(world.url(f"allocations/{world.running.pk}/"))
    text = html.content.decode()
    assert "<title>train-1: " in text
    for part in ("Desired", "Observed", "Executing", "Shown"):
        assert f"<h3>{part}</h3>" in text
    assert "ssh -p 2222 ubuntu@127.0.0.1" in text
    assert "Allocation: activate" in text
    gates = re.findall(r"<strong>(\w[\w ]*)</strong></span><span class=\"state s-ok\"", text)
    assert gates[0] == "identity"
    assert gates[-1] == "capacity"
    assert "Release this allocation" not in text


def test_a_release_says_what_happens_and_is_one_however_often_it_is_sent(world: World) -> None:
    browser = world.browser("member")
    address = world.url(f"allocations/{world.running.pk}/")
    text = browser.get(address).content.decode()
    assert "everything on it is destroyed" in text
    for _ in range(2):
        answer = browser.send(f"{address}release/", {"reason": "done"})
        assert answer.headers["Location"] == address
    world.running.refresh_from_db()
    assert world.running.state == "releasing"
    world.host.work()
    world.running.refresh_from_db()
    assert (world.running.state, world.running.outcome) == ("released", "ended")
    assert "There is nothing to connect to" in browser.get(address).content.decode()


@pytest.mark.parametrize("role", ["viewer", "billing"])
def test_who_may_not_write_cannot_release(world: World, role: str) -> None:
    answer = world.browser(role).send(world.url(f"allocations/{world.running.pk}/release/"))
    assert answer.status_code == 403
    world.running.refresh_from_db()
    assert world.running.state == "active"


def test_a_foreign_allocation_cannot_be_released(world: World) -> None:
    answer = world.browser().send(world.url(f"allocations/{world.foreign.pk}/release/"))
    assert answer.status_code == 404
    world.foreign.refresh_from_db()
    assert world.foreign.state == "active"


def test_a_name_changes_only_from_the_version_that_was_seen(world: World) -> None:
    browser = world.browser()
    address = world.url(f"allocations/{world.running.pk}/rename/")
    row = Allocation.objects.get(pk=world.running.pk)
    assert browser.send(address, {"name": "new", "version": row.version}).status_code == 302
    stale = browser.send(address, {"name": "newer", "version": row.version})
    assert stale.status_code == 412
    assert "stale_resource_version" in stale.content.decode()
    row.refresh_from_db()
    assert row.name == "new"


def test_a_blocked_cleanup_tells_the_tenant_that_it_pays_nothing(world: World) -> None:
    browser = world.browser()
    address = world.url(f"allocations/{world.running.pk}/")
    browser.send(f"{address}release/")
    world.host.work(skip=("gpu_scrubbed",))
    text = browser.get(address).content.decode()
    assert "cleanup blocked" in text
    assert "You no longer pay for it" in text


def test_the_cost_counts_from_active_to_the_release() -> None:
    now = clock.now()
    row = Allocation(price_hour_micro=3_600_000, active_at=now - timedelta(seconds=90))
    assert cost_so_far(row, now) == (90_000, now)
    row.release_asked_at = now - timedelta(seconds=30)
    assert cost_so_far(row, now) == (60_000, row.release_asked_at)
    assert cost_so_far(Allocation(price_hour_micro=1), now) == (0, None)


def test_a_script_gets_only_the_part_that_changes(world: World) -> None:
    answer = world.browser().get(
        world.url(f"allocations/{world.running.pk}/"), headers={"HX-Request": "true"}
    )
    assert answer.content.decode().lstrip().startswith('<div class="head">')


def test_the_drift_is_marked_in_words_when_the_host_no_longer_sees_it(world: World) -> None:
    Allocation.objects.filter(pk=world.running.pk).update(
        observed="absent", observed_at=F("active_at")
    )
    text = world.browser().get(world.url(f"allocations/{world.running.pk}/")).content.decode()
    assert "lost" in text
    assert text.count("</svg>drift</span>") == 2
