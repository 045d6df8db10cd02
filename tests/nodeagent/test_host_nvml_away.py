"""Is NVML let go of where a driver changes, and only there?"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.assemble import hands_off
from nodeagent.host.backend import HostBackend
from nodeagent.host.discovery.gpus import _MOST_LOOK_S
from nodeagent.host.helper.client import HelperAway
from nodeagent.host.helper.wire import Verb
from nodeagent.host.nvml import Nvml, NvmlUnavailable
from nodeagent.protocol import SignedTask, TaskKind
from placement.services.tasks import LEASE_S

SIGNED = SignedTask({}, {}, "A" * 86 + "==")
TURNS = 3


class Helper:
    """Notes for each verb whether NVML was let go of, and makes nothing beyond an attached slot."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self.away: dict[str, bool] = {}

    async def do(self, verb: Verb, told: str, *_: object, **__: object) -> dict[str, Any]:
        """One request of the backend's."""
        self.away[told] = self._nvml.wanted
        if verb is Verb.START:
            raise BackendError("start_failed", "as far as this goes", retryable=False)
        return {"evidence": []}


async def at_once(step: str, percent: int) -> None:
    """Nobody hears how it goes."""


def a_backend() -> tuple[HostBackend, Helper]:
    """A backend whose helper only takes notes."""
    nvml = Nvml()
    config = cast(Any, SimpleNamespace(socket_path=None))
    backend = HostBackend(config, cast(Any, None), cast(Any, None), nvml)
    helper = Helper(nvml)
    backend._helper = cast(Any, helper)
    return backend, helper


@pytest.mark.parametrize("kind", [TaskKind.VM_RELEASE, TaskKind.BAREMETAL_RELEASE])
def test_a_disk_that_takes_hours_to_erase_does_not_blind_the_host(kind: TaskKind) -> None:
    backend, helper = a_backend()
    params = cast(Any, SimpleNamespace(allocation_id="alloc-1"))
    asyncio.run(backend.release(kind, params, at_once, SIGNED))
    assert {step for step, away in helper.away.items() if away} == {
        "devices_detached",
        "gpu_scrubbed",
        "no_process",
    }
    assert {"vm_gone", "nvme_sanitised", "gpu_error_free", "settling"} <= helper.away.keys()


@pytest.mark.parametrize(
    ("kind", "away"),
    [(TaskKind.VM_PROVISION, {"attaching"}), (TaskKind.BAREMETAL_PROVISION, set())],
)
def test_a_machine_is_given_its_devices_with_no_handle_of_the_agents_on_them(
    kind: TaskKind, away: set[str]
) -> None:
    backend, helper = a_backend()
    params = cast(Any, SimpleNamespace(allocation_id="alloc-1"))
    with pytest.raises(BackendError, match="as far as this goes"):
        asyncio.run(backend.provision(kind, params, at_once, SIGNED))
    assert {step for step, gone in helper.away.items() if gone} == away
    assert len(helper.away) == TURNS


def test_a_look_at_a_slow_driver_is_outwaited_before_the_driver_of_a_gpu_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, helper = a_backend()
    waits: list[float] = []
    released = backend._nvml.released

    def noted(*, wait_s: float) -> AbstractContextManager[None]:
        waits.append(wait_s)
        return released(wait_s=wait_s)

    monkeypatch.setattr(backend._nvml, "released", noted)
    params = cast(Any, SimpleNamespace(allocation_id="alloc-1"))
    asyncio.run(backend.release(TaskKind.VM_RELEASE, params, at_once, SIGNED))
    assert len(waits) == sum(helper.away.values()) == TURNS
    # Nothing is told to the control plane meanwhile, which takes a lease for lost in the end.
    assert _MOST_LOOK_S < min(waits) <= max(waits) < LEASE_S


def test_the_agent_has_no_gpu_open_until_the_helper_answers_for_the_first_time() -> None:
    nvml, asked = Nvml(), [False, False, True]
    config = cast(Any, SimpleNamespace(socket_path=None))
    backend = HostBackend(config, cast(Any, None), cast(Any, None), nvml)

    async def runs() -> None:
        async with hands_off(nvml, lambda: asked.pop(0), every_s=0.0):
            with pytest.raises(HelperAway, match="let go of"):
                backend.topology()
            with pytest.raises(NvmlUnavailable, match="released"), nvml.session():
                pass
            while nvml.wanted:
                await asyncio.sleep(0)
            assert asked == []

    asyncio.run(runs())


def test_an_agent_that_ends_before_its_helper_is_there_ends() -> None:
    nvml = Nvml()

    async def runs() -> None:
        async with hands_off(nvml, lambda: False, every_s=60.0):
            await asyncio.sleep(0)

    asyncio.run(runs())
    assert not nvml.wanted
