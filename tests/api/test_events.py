"""Is the feed the sealed chain in its own order, and does the stream go on where it broke off?"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from gpuaas.api.views.stream import frames
from gpuaas.kernel.notify import hub
from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import TenantWorld, a_catalogue, a_tenant
from tests.kernel.factories import all_sealed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> Iterator[TenantWorld]:
    a_catalogue()
    yield a_tenant("acme")
    hub.stop()


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    caller = caller_of(world)
    for number in range(4):
        caller.post("/projects", {"name": f"project {number}"})
    all_sealed()
    return caller


def test_the_feed_pages_by_the_chains_own_position(acme: Caller) -> None:
    first = acme.get("/events?limit=3").json()
    assert [item["seq"] for item in first["items"]] == [1, 2, 3]
    rest = acme.get(f"/events?cursor={first['next']}").json()
    assert rest["next"] == ""
    assert [item["seq"] for item in rest["items"]] == list(range(4, rest["last_seq"] + 1))
    nothing = acme.get(f"/events?after={rest['last_seq']}").json()
    assert (nothing["items"], nothing["last_seq"]) == ([], rest["last_seq"])
    assert acme.get("/events?cursor=x").status_code == 400
    assert acme.get("/events?after=-1").status_code == 400


def test_a_tenant_hears_of_itself_only(acme: Caller) -> None:
    globex = caller_of(a_tenant("globex"))
    all_sealed()
    names = json.dumps(globex.get("/events").json())
    assert "project 1" not in names
    assert "globex" in names


def test_operators_read_the_platforms_own_chain(acme: Caller) -> None:
    operator = operator_caller()
    operator.post("/nodes", {"name": "gpu-01"})
    all_sealed()
    kinds = {item["kind"] for item in operator.get("/events").json()["items"]}
    assert "placement.node.create" in kinds
    assert "tenants.project.create" not in kinds


def parsed(chunk: bytes) -> dict[str, str]:
    lines = [line.split(": ", 1) for line in chunk.decode().splitlines() if line]
    return {line[0]: line[1] for line in lines}


def test_the_stream_goes_on_after_the_last_event_that_was_seen(
    acme: Caller, world: TenantWorld
) -> None:
    answer = acme.get("/stream", HTTP_LAST_EVENT_ID="2")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    chunks = list(itertools.islice(answer.streaming_content, 3))
    answer.close()
    assert parsed(chunks[0]) == {"retry": "3000"}
    event = parsed(chunks[1])
    assert event["id"] == "3"
    assert json.loads(event["data"])["kind"] == event["event"]
    assert parsed(chunks[2])["id"] == "4"
    assert hub.parked == 0


def test_the_stream_brings_what_is_sealed_later_and_beats_in_between(
    acme: Caller, world: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuaas.api.views.stream.HEARTBEAT_S", 0.05)
    stream = frames(world.tenant.pk, None, operator=False)
    assert parsed(next(stream)) == {"retry": "3000"}
    assert next(stream) == b": still here\n\n"
    acme.post("/projects", {"name": "later"})
    all_sealed()
    event = next(chunk for chunk in stream if chunk.startswith(b"id:"))
    assert parsed(event)["event"] == "tenants.project.create"
    stream.close()


def test_a_stream_without_a_seat_ends_at_once(
    acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "limit", 0)
    answer = acme.get("/stream")
    assert [parsed(chunk) for chunk in answer.streaming_content] == [{"retry": "3000"}]


def test_a_position_that_is_none_is_refused(acme: Caller) -> None:
    assert acme.get("/stream", HTTP_LAST_EVENT_ID="-3").status_code == 400
    assert acme.get("/stream?after=x").status_code == 400
