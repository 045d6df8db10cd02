"""How does the agent do its work on a real host: look, make, clean?

It looks for itself and has everything else done by the privileged helper, one small step after the
other, telling how it goes before and after each. What the helper cannot be asked is unknown: then
nothing is reported, and silence means unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.backend import (
    BackendError,
    LeaseLost,
    Observation,
    Progress,
    TaskCancelled,
)
from nodeagent.clock import Clock
from nodeagent.host.believing import believes, differences
from nodeagent.host.config import HostConfig, Readiness
from nodeagent.host.discovery import DeviceSight
from nodeagent.host.helper.client import Helper, HelperAway
from nodeagent.host.helper.wire import Cleaned, Inspection, SeenTenancy, Verb
from nodeagent.host.nvml import Nvml, NvmlBusy
from nodeagent.host.seeing import MOST_CONDITIONS, observation
from nodeagent.host.using import GpuUsers
from nodeagent.host.wiring import Wiring
from nodeagent.identity import Identity
from nodeagent.protocol import (
    PROVISION_KINDS,
    REQUIRED_CLEANUP_STEPS,
    Address,
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    BurnInResult,
    CleanupStep,
    Condition,
    EvidenceStep,
    FailureCode,
    PartKind,
    ProvisionResult,
    SignedTask,
    SlotEvidence,
    TaskKind,
    TopologyReport,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
    VmState,
    VmSummary,
    WireError,
)

log = logging.getLogger("nodeagent")
_READY_POLL_S = 1.0
_BANNER_S = 3.0
_BEAT_S = 1.0
_LOOK_EVERY_S = 10.0
# Longer than a look at a slow driver is waited for, and shorter than a task is leased for.
_LET_GO_S = 30.0
# A driver changes, a GPU is reset, or nobody may have one open. The others take hours where disks
# are erased; meanwhile the GPUs of everybody else are measured on.
_WITHOUT_NVML = frozenset(
    {CleanupStep.DEVICES_DETACHED, CleanupStep.GPU_SCRUBBED, CleanupStep.NO_PROCESS}
)
# Without these two, a later step would touch what is still in use.
_NOTHING_BEYOND = (CleanupStep.VM_GONE, CleanupStep.DEVICES_DETACHED)
_BARE_KINDS = frozenset({TaskKind.BAREMETAL_PROVISION, TaskKind.BAREMETAL_RELEASE})


class HostBackend:
    """One real host. identity: who its agent is to the control plane, once it has joined."""

    def __init__(
        self,
        config: HostConfig,
        clock: Clock,
        wiring: Wiring,
        nvml: Nvml,
        identity: Callable[[], Identity | None] = lambda: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._wiring = wiring
        self._nvml = nvml
        self._identity = identity
        self._helper = Helper(config.socket_path)
        self._users = GpuUsers(self._helper.holders)
        self._topology: TopologyReport | None = None
        self._recalled: TopologyReport | None = None
        self._cleaning: set[str] = set()
        self._runtime: Inspection | None = None
        # With the report whose devices were looked at.
        self._seen: tuple[TopologyReport, DeviceSight] | None = None
        self._seen_at = 0.0
        self._turn = asyncio.Lock()
        self._look: asyncio.Future[Observation] | None = None

    @property
    def hostname(self) -> str:
        """The name that the operator gave this host."""
        return self._config.name

    @property
    def capabilities(self) -> frozenset[TaskKind]:
        """Making machines only where they can run; cleaning up always."""
        found = {TaskKind.DISCOVER, *self._config.kinds}
        if self._runtime is not None and not self._runtime.works:
            found.discard(TaskKind.VM_PROVISION)
        return frozenset(found)

    @property
    def ready(self) -> bool:
        """Once machines of before the host's restart are back, and the GPUs may be asked."""
        returning = self._runtime is not None and bool(self._runtime.returning)
        return not returning and (self._topology is not None or not self._nvml.wanted)

    @property
    def part_kinds(self) -> frozenset[PartKind]:
        """None: a GPU goes to a machine whole through VFIO, which knows neither MIG nor shares."""
        return frozenset()

    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return read_boot_id(self._config.root)

    def facts(self) -> dict[str, Any]:
        """What the join tells."""
        seen, report = self._inspect(), self.topology()
        return {
            "simulated": False,
            "gpus": len(report.gpus),
            "devices": self._config.vm.devices.value,
            "runtime": seen.runtime[:200],
        }

    def topology(self) -> TopologyReport:
        """The wiring, as last discovered. Raises OSError or ValueError.

        HelperAway before there is one and while no GPU may be asked: it is kept for long.
        """
        if self._topology is None and self._nvml.wanted:
            raise HelperAway("the GPUs are let go of, and were not looked at before")
        if self._topology is None:
            self._topology, self._recalled = self._wiring.read(), None
        return self._topology

    def _known_wiring(self) -> TopologyReport:
        """The wiring; while no GPU may be asked, as it is remembered, for what is reported only.

        After the host's restart machines get their devices for minutes, and silence would say
        that the host is gone. Raises OSError or ValueError.
        """
        if self._topology is not None or not self._nvml.wanted:
            return self.topology()
        if self._recalled is None:
            self._recalled = self._wiring.read()
        return self._recalled

    async def observe(self) -> Observation:
        """What is on the host now. Raises HelperAway: then it is unknown, and not told.

        In a thread: a driver or a helper that takes its time must not keep leases from being
        renewed. Where a discovery was made meanwhile, what was seen is of before it: once more.
        """
        async with self._turn:
            while True:
                if self._look is not None and not self._look.done():
                    # Whoever wanted it has gone; two at once would ask the driver twice.
                    await asyncio.wait([self._look])
                known = self._topology
                self._look = asyncio.ensure_future(asyncio.to_thread(self._observe))
                seen = await asyncio.shield(self._look)
                if known is None or known is self._topology:
                    return seen

    def _observe(self) -> Observation:
        seen, report = self._inspect(), self._known_wiring()
        sight = self._sight(report)
        free = {
            folder: shutil.disk_usage(folder).free
            for folder in (self._config.agent_folder, self._config.helper_folder)
        }
        trust = self._helper.trust()
        found = observation(seen, trust, sight, report, self._cleaning, self._config, free)
        wrong = differences(self._helper.belief(), self._identity(), self._config.control_keys)
        used = self._used(burning=seen.burning)
        return replace(found, conditions=(*wrong, *found.conditions, *used)[:MOST_CONDITIONS])

    def _used(self, *, burning: bool) -> tuple[Condition, ...]:
        """GPUs that somebody has open, where machines are made that would get them."""
        config = self._config
        if not config.images or config.intended_use == "baremetal":
            return ()
        return self._users.conditions(self._clock.now(), burning=burning)

    async def believes(self, control_key: str) -> bool | None:
        """By the helper's own word. Raises HelperAway."""
        return believes(await asyncio.to_thread(self._helper.belief), control_key)

    def _sight(self, report: TopologyReport) -> DeviceSight:
        """Which devices are there; looked at every few seconds, since a driver takes its time."""
        now, kept = self._clock.now(), self._seen
        if kept is None or kept[0] is not report or not 0 <= now - self._seen_at < _LOOK_EVERY_S:
            kept = report, self._wiring.look(report)
            self._seen, self._seen_at = kept, now
        return kept[1]

    async def take(self, task: SignedTask) -> None:
        """By the helper, with the control plane's keys as root has them. Raises BackendError."""
        await self._helper.take(task)

    async def discover(self, progress: Progress) -> TopologyReport:
        """Read the wiring again. Raises BackendError."""
        await progress("reading", 10)
        reading = asyncio.create_task(asyncio.to_thread(self._wiring.read))
        try:
            # A slow driver takes longer than the task is leased for.
            while not (await asyncio.wait([reading], timeout=_BEAT_S))[0]:
                await progress("reading", 10)
            report = reading.result()
        except (OSError, ValueError) as error:
            raise BackendError(
                FailureCode.BACKEND_ERROR,
                f"the devices could not be read: {error}"[:2000],
                retryable=True,
            ) from error
        self._topology, self._seen = report, None
        return report

    async def provision(
        self,
        kind: TaskKind,
        params: VmProvisionParams | BaremetalProvisionParams,
        progress: Progress,
        signed: SignedTask,
    ) -> ProvisionResult:
        """Write it down, attach, start, and wait for it. Raises BackendError."""
        assert kind in PROVISION_KINDS
        claim = params.allocation_id
        given = {"task": signed.to_json()}
        await self._helper.do(Verb.DEFINE, "defining", 0, progress, **given)
        bare = kind in _BARE_KINDS
        async with self._without_nvml(not bare):
            step = "imaging" if bare else "attaching"
            await self._helper.do(Verb.ATTACH, step, 25, progress, **given)
        await self._helper.do(Verb.START, "starting", 50, progress, **given)
        seen = await self._ready(claim, progress)
        return ProvisionResult(
            allocation_id=claim,
            address=Address(seen.host, seen.port, seen.user),
            boot_id=self.boot_id(),
            vm=VmSummary(seen.name, seen.state, params.image),
        )

    async def burn_in(
        self, params: BurnInParams, progress: Progress, load: Unwanted, signed: SignedTask
    ) -> BurnInResult:
        """By the operator's hook, which the helper runs and ends. Raises BackendError."""
        task = signed.to_json()
        try:
            done = await self._helper.do(Verb.BURN_IN, "burning", 5, progress, task=task)
        except (LeaseLost, TaskCancelled):
            # The request may still wait in the helper: this lease begins nothing any more either.
            await self.end_burn_in(replace(load, lease_epoch=load.lease_epoch + 1))
            raise
        try:
            return BurnInResult.from_json(done)
        except WireError as error:
            raise BackendError(
                "helper_away", f"the helper's answer is not in its form: {error}", retryable=True
            ) from error

    async def end_burn_in(self, load: Unwanted) -> None:
        """By the helper, which knows whose load runs, also where its agent is gone."""
        await self._helper.ask(Verb.END_BURN_IN, load=load.to_json())

    async def release(
        self,
        kind: TaskKind,
        params: VmReleaseParams | BaremetalReleaseParams,
        progress: Progress,
        signed: SignedTask,
    ) -> tuple[SlotEvidence, ...]:
        """Every required step in order. Raises BackendError with the evidence when one failed."""
        claim = params.allocation_id
        self._cleaning.add(claim)
        try:
            return await self._clean(kind, progress, signed)
        finally:
            self._cleaning.discard(claim)

    async def _clean(
        self, kind: TaskKind, progress: Progress, signed: SignedTask
    ) -> tuple[SlotEvidence, ...]:
        required = REQUIRED_CLEANUP_STEPS[kind]
        given = {"task": signed.to_json()}
        shown: dict[int, list[EvidenceStep]] = {}
        failed: list[str] = []
        for place, step in enumerate(required):
            percent = place * 95 // len(required)
            async with self._without_nvml(step in _WITHOUT_NVML):
                done = await self._helper.do(
                    Verb.CLEAN, step.value, percent, progress, step=step.value, **given
                )
            for slot in _cleaned(done).evidence:
                shown.setdefault(slot.slot_index, []).extend(slot.steps)
                failed += [
                    f"{one.step} on slot {slot.slot_index}: {one.detail}"
                    for one in slot.steps
                    if not one.ok
                ]
            if failed and step in _NOTHING_BEYOND:
                break
        evidence = tuple(SlotEvidence(index, tuple(steps)) for index, steps in shown.items())
        if failed:
            raise BackendError(
                FailureCode.CLEANUP_FAILED,
                "; ".join(failed)[:2000],
                retryable=True,
                evidence=evidence,
            )
        await self._helper.do(Verb.SETTLE, "settling", 96, progress, **given)
        return evidence

    async def _ready(self, claim: str, progress: Progress) -> SeenTenancy:
        """Wait until the machine is there as the configuration demands. Raises BackendError."""
        waited = 0.0
        while True:
            await progress("booting", 75)
            seen = await asyncio.to_thread(self._tenancy, claim)
            if seen.state is VmState.STOPPED:
                raise BackendError("start_failed", "the machine ended by itself", retryable=True)
            if seen.state is VmState.RUNNING and await self._answers(seen):
                await progress("booting", 90)
                return seen
            if waited >= self._config.vm.ready_timeout_s:
                detail = f"it was not ready within {self._config.vm.ready_timeout_s:g} seconds"
                raise BackendError("boot_timeout", detail, retryable=True)
            await self._clock.sleep(_READY_POLL_S)
            waited += _READY_POLL_S

    async def _answers(self, seen: SeenTenancy) -> bool:
        if self._config.vm.ready is Readiness.RUNNING:
            return True
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(_BANNER_S):
                reader, writer = await asyncio.open_connection(seen.host, seen.port)
                try:
                    return await reader.readexactly(4) == b"SSH-"
                finally:
                    writer.close()
        return False

    def _tenancy(self, claim: str) -> SeenTenancy:
        try:
            found = [one for one in self._inspect().tenancies if one.claim == claim]
        except HelperAway as error:
            raise BackendError("helper_away", str(error), retryable=True) from error
        if not found:
            raise BackendError(
                FailureCode.BACKEND_ERROR, "the machine vanished while it was made", retryable=True
            )
        return found[0]

    def _inspect(self) -> Inspection:
        self._runtime = self._helper.inspect()
        return self._runtime

    @contextlib.asynccontextmanager
    async def _without_nvml(self, needed: bool) -> AsyncIterator[None]:
        """Where it is needed, no handle of ours on any GPU meanwhile. Raises BackendError."""
        if not needed:
            yield
            return
        released = self._nvml.released(wait_s=_LET_GO_S)
        try:
            await asyncio.to_thread(released.__enter__)
        except NvmlBusy as error:
            raise BackendError("nvml_busy", str(error), retryable=True) from error
        try:
            yield
        finally:
            released.__exit__(None, None, None)


def read_boot_id(root: Path) -> str:
    """The kernel's id of this boot; a captured tree has none, and then it is the running one's."""
    for base in (root, Path("/")):
        with contextlib.suppress(OSError):
            return (base / "proc/sys/kernel/random/boot_id").read_text().strip()
    raise OSError("the kernel tells no boot id")


def _cleaned(done: dict[str, Any]) -> Cleaned:
    try:
        return Cleaned.from_json(done)
    except WireError as error:
        raise BackendError(
            "helper_away", f"the helper's evidence is not in its form: {error}", retryable=True
        ) from error
