"""Does an open page hear of changes, and only of those that are its reader's?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuaas.kernel import ids
from gpuaas.kernel.notify import hub
from gpuaas.ui import live
from gpuaas.ui.live import event_stream
from placement.models import Allocation
from tenants.models import Member
from tests.portal.conftest import Browser, World


class Bell:
    """Stands in for the hub: rings as often as it is told, doing something before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: Any) -> None:
        self.steps = steps
        self.topics: set[str] = set()
        monkeypatch.setattr(hub, "stream", self.stream)

    def stream(self, topics: Any, heartbeat_s: float) -> Iterator[set[str]]:
        self.topics = set(topics)
        for step in self.steps:
            step()
            yield set()


def nothing() -> None:
    """A quiet look."""


def said(response: Any) -> str:
    """All that a stream says."""
    return b"".join(response.streaming_content).decode()


def test_a_stream_says_changed_only_when_something_is_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Bell(monkeypatch, nothing, nothing, nothing, nothing)
    seen = iter(["a", "a", "b", "b"])
    text = said(event_stream(["t"], lambda: next(seen)))
    assert text.count("event: changed") == 1
    assert "data: b" in text


def test_a_stream_ends_when_the_thing_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    Bell(monkeypatch, nothing, nothing, nothing)
    seen = iter(["a", None])
    assert said(event_stream(["t"], lambda: next(seen))).endswith("event: gone\ndata: gone\n\n")


def test_a_full_house_tells_the_page_to_ask_later(monkeypatch: pytest.MonkeyPatch) -> None:
    Bell(monkeypatch)
    text = said(event_stream(["t"], lambda: "a"))
    assert f"retry: {live.RETRY_FULL_MS}" in text
    assert "event: changed" in text


def test_a_page_hears_of_its_allocation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def release() -> None:
        world.browser().send(world.url(f"allocations/{world.running.pk}/release/"))

    bell = Bell(monkeypatch, nothing, release, nothing)
    answer = world.browser("viewer").get(world.url(f"allocations/{world.running.pk}/live/"))
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] == "no-store"
    assert said(answer).count("event: changed") == 1
    assert f"run:{world.running.run_id}" in bell.topics


def test_another_tenants_change_is_not_heard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere() -> None:
        stranger = Browser.of(world.globex.owner)
        address = world.url(f"allocations/{world.foreign.pk}/release/", tenant="globex")
        assert stranger.send(address).status_code == 302
        assert Allocation.objects.get(pk=world.foreign.pk).state == "releasing"

    Bell(monkeypatch, nothing, elsewhere)
    assert "event: changed" not in said(world.browser().get(world.url("live/")))


def test_who_leaves_the_tenant_hears_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave() -> None:
        Member.objects.filter(user=world.people["member"]).delete()

    Bell(monkeypatch, nothing, leave, nothing)
    answer = world.browser("member").get(world.url("live/"))
    assert said(answer).endswith("event: gone\ndata: gone\n\n")


@pytest.mark.parametrize("which", ["foreign", "missing"])
def test_there_is_no_stream_of_what_is_not_the_readers(world: World, which: str) -> None:
    pk = world.foreign.pk if which == "foreign" else ids.new_id()
    assert world.browser().get(world.url(f"allocations/{pk}/live/")).status_code == 404
    assert world.browser("billing").get(world.url("live/")).status_code == 403
