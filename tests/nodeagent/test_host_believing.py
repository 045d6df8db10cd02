"""Is a helper of another control plane, or of another node, named before it refuses any task?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.backend import BackendError
from nodeagent.host.believing import differences
from nodeagent.host.discovery import see_as_root
from nodeagent.host.helper.client import Helper
from nodeagent.host.helper.wire import Belief, Held, Trust
from nodeagent.identity import Identity
from nodeagent.protocol import SignedTask, TaskKind, key_fingerprint
from nodeagent.signing import public_text
from tests.nodeagent.control import NODE
from tests.nodeagent.host_stage import HostStage, host_stage, until

FILE = Path("/etc/gpuaas-agent/control-keys.toml")
KEY, OTHER = "A" * 43 + "=", "B" * 43 + "="


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host whose helper and agent have not been started."""
    with host_stage() as made:
        made.control.poll_ms = 50
        yield made


def start(stage: HostStage) -> None:
    """Both halves, until the host was heard."""
    stage.start_helper()
    stage.start_agent()
    assert until(lambda: bool(stage.control.observed))


def conditions(stage: HostStage) -> dict[str, str]:
    """Of the last report: codes with what they say."""
    return {one.code: one.detail for one in stage.control.observed[-1].conditions}


def test_a_helper_of_another_node_is_named_in_the_first_report(stage: HostStage) -> None:
    stage.trust(public_text(stage.control.key), node_id="node-of-before")
    start(stage)
    assert list(conditions(stage)) == ["helper_wrong_node"]
    said = conditions(stage)["helper_wrong_node"]
    assert f"is of node node-of-before, and this host joined as {NODE}" in said
    assert "manage.py control_keys --node host-1" in said
    assert (stage.control.failed, stage.control.completed) == ([], [])
    stage.trust(public_text(stage.control.key))
    assert until(lambda: not conditions(stage))
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make")


def test_a_helper_with_another_control_planes_keys_is_named_and_asked_about_once(
    stage: HostStage,
) -> None:
    other = public_text(Ed25519PrivateKey.generate())
    stage.trust(other)
    start(stage)
    assert list(conditions(stage)) == ["helper_wrong_keys"]
    said = conditions(stage)["helper_wrong_keys"]
    assert f"has the keys {key_fingerprint(other)}" in said
    assert f"signs with {key_fingerprint(public_text(stage.control.key))}" in said
    seen = len(stage.control.order)
    assert until(lambda: len(stage.control.order) > seen + 10)
    assert stage.control.renewals == 1


def test_an_agent_that_has_not_met_the_new_key_yet_asks_for_it_and_nothing_is_wrong(
    stage: HostStage,
) -> None:
    start(stage)
    new = Ed25519PrivateKey.generate()
    stage.control.key = new
    stage.trust(public_text(new))
    assert until(lambda: stage.control.renewals == 1)
    seen = len(stage.control.order)
    assert until(lambda: len(stage.control.order) > seen + 6)
    assert {one.code for report in stage.control.observed for one in report.conditions} == set()


def test_the_helper_tells_its_agent_what_the_first_process_has_mounted(stage: HostStage) -> None:
    helper = Helper(stage.folder / "run" / "helper.sock")
    nobody = helper.survey()
    assert (nobody.away, nobody.unreadable[:26]) == (True, "the helper does not answer")
    stage.start_helper()
    told = helper.survey()
    assert told == see_as_root(Path("/"))
    assert told.unreadable == ""
    # Files stand in for its GPUs, which nobody need let go of.
    assert helper.holders() == Held((), (), ())


def test_a_helper_that_does_not_say_whom_it_believes_is_unknown_and_not_wrong() -> None:
    joined = Identity("node-1", "gpu-17", "c", 0, 1, KEY, 1000)
    assert differences(None, joined, FILE) == ()
    assert differences(Belief("", ()), joined, FILE) == ()
    assert differences(Belief("node-1", (OTHER, KEY)), joined, FILE) == ()
    assert differences(Belief("node-2", (OTHER,)), None, FILE) == ()
    both = differences(Belief("node-2", (OTHER,)), joined, FILE)
    assert [one.code for one in both] == ["helper_wrong_node", "helper_wrong_keys"]
    told = Belief.from_json({"node_id": "n", "keys": [], "of_later": 1})
    assert told == Belief("n", ())


def test_a_helper_from_before_is_named_by_the_agent(tmp_path: Path) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        detail = "/verb: not one of the helper's verbs [unknown_value]"
        problem = {"code": "request_invalid", "detail": detail, "retryable": False}
        writer.write(json.dumps({"problem": problem}).encode() + b"\n")
        await writer.drain()
        writer.close()

    async def asks() -> Trust:
        socket = tmp_path / "helper.sock"
        async with await asyncio.start_unix_server(answers, str(socket)):
            helper = Helper(socket)
            with pytest.raises(BackendError, match="restart gpuaas-helper") as refused:
                await helper.take(SignedTask({}, {}, "A" * 86 + "=="))
            assert (refused.value.code, refused.value.retryable) == ("helper_too_old", True)
            assert await asyncio.to_thread(helper.belief) is None
            assert await asyncio.to_thread(helper.holders) is None
            said = await asyncio.to_thread(helper.survey)
            assert ("restart gpuaas-helper" in said.unreadable, said.away) == (True, False)
            return await asyncio.to_thread(helper.trust)

    told = asyncio.run(asks())
    assert (told.works, "restart gpuaas-helper" in told.detail) == (False, True)
