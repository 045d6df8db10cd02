"""What does the helper do for each verb, and when does it refuse?

It trusts nothing that the agent says: what is to be done is read out of what the control plane has
signed, and what may be touched is looked up here, in this host's own wiring, configuration and
records. Every verb may be repeated; two for one claim
run one after the other.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from nodeagent.backend import BackendError
from nodeagent.clock import Clock
from nodeagent.host.cleanup.steps import Before, Devices, Done, StepFailed, device_step
from nodeagent.host.discovery import RootSight
from nodeagent.host.helper.bounds import Bounds, refuse_different
from nodeagent.host.helper.grants import Grant, Grants
from nodeagent.host.helper.turns import ClaimTurns
from nodeagent.host.helper.wire import (
    Belief,
    Cleaned,
    Held,
    Inspection,
    Provision,
    Release,
    Request,
    SeenDamage,
    SeenHolder,
    SeenLost,
    SeenSerial,
    SeenTenancy,
    Survey,
    Trust,
    Verb,
)
from nodeagent.host.records import BAREMETAL, NO_UID, SLICE, Damaged, Records, Tenancy, remade
from nodeagent.host.runtime.baremetal import BareHost
from nodeagent.host.runtime.burning import BurnIn
from nodeagent.host.runtime.kvm import Probe
from nodeagent.host.runtime.machines import Machines
from nodeagent.host.runtime.owners import Owners
from nodeagent.host.runtime.returning import Returning
from nodeagent.host.runtime.spec import vm_name
from nodeagent.protocol import (
    REQUIRED_CLEANUP_STEPS,
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    BurnInResult,
    CleanupStep,
    EvidenceStep,
    FailureCode,
    Message,
    SlotDevices,
    SlotEvidence,
    TaskKind,
    TopologyReport,
    Unwanted,
    VmState,
    task_slots,
)

log = logging.getLogger("nodeagent.helper")
_MARGIN_US = 1_000_000


class Verbs:
    """The helper's work. boot: this boot's id."""

    def __init__(
        self,
        records: Records,
        report: Callable[[], TopologyReport],
        machines: Machines,
        bare: BareHost,
        devices: Devices,
        runtime: Probe,
        boot: str,
        clock: Clock,
        owners: Owners,
        burning: BurnIn,
        grants: Grants,
        survey: Callable[[], RootSight],
        returning: Returning,
    ) -> None:
        self._records = records
        self._machines = machines
        self._bounds = Bounds(records, report, machines.mark)
        self._bare = bare
        self._devices = devices
        self._runtime = runtime
        self._boot = boot
        self._clock = clock
        self._owners = owners
        self._burning = burning
        self._grants = grants
        self._survey = survey
        self._returning = returning
        self._turn = threading.Lock()
        self._turns = ClaimTurns()

    def run(self, request: Request) -> Message | None:
        """Carry out one request. Raises BackendError."""
        if request.verb is Verb.INSPECT:
            return self._inspect()
        if request.verb is Verb.TRUST:
            why = self._grants.usable()
            return Trust(not why, why)
        if request.verb is Verb.BELIEF:
            told = self._grants.believed()
            return Belief("", ()) if told is None else Belief(told.node_id, told.keys)
        if request.verb is Verb.SURVEY:
            sight = self._survey()
            names, numbers = tuple(sorted(sight.names)), tuple(sorted(sight.numbers))
            serials = tuple(SeenSerial.of(*one) for one in sorted(sight.serials.items())[:256])
            return Survey(names, numbers, sight.unreadable[:500], serials)
        if request.verb is Verb.HOLDERS:
            users = self._devices.users()
            found = tuple(SeenHolder(one.what, one.pid, one.name) for one in users.found)
            return Held(found[:1024], users.unseen[:4096], users.unknown[:256])
        if request.verb is Verb.END_BURN_IN:
            assert request.load is not None
            self._burning.end(request.load)
            return None
        assert request.task is not None
        grant = self._grants.checked(request.verb, request.task)
        self._returning.refuse_waiting(grant.claim)
        if request.verb is Verb.TAKE:
            # It is noted; what is under way for the claim may go on for long: nobody waits for it.
            return None
        if request.verb is Verb.BURN_IN:
            return self._burn_in(grant)
        with self._turns.alone(grant.claim):
            # It may have waited for its turn, and a release have been signed meanwhile.
            grant = self._grants.checked(request.verb, request.task)
            match request.verb:
                case Verb.DEFINE:
                    self._define(grant)
                case Verb.ATTACH:
                    self._attach(self._tenancy(grant))
                case Verb.START:
                    self._start(self._tenancy(grant))
                case Verb.CLEAN:
                    return self._clean(grant, request.step)
                case Verb.SETTLE:
                    self._settle(grant)
        return None

    def resume(self) -> None:
        """After the host's own restart, start again what ran before it; takes its time."""
        self._returning.run(lambda claim: self._turns.alone(claim, threading.TIMEOUT_MAX))

    # Looking

    def _inspect(self) -> Inspection:
        try:
            self._devices.look()
        except OSError as error:
            log.warning("the kernel's log cannot be read: %s", error.strerror)
        records, damaged = self._records.all(), self._bounds.damaged()
        known = {vm_name(one.claim) for one in records}
        known |= {vm_name(one.claim) for one in damaged if one.claim}
        return Inspection(
            tenancies=tuple(self._seen(one) for one in records),
            strays=tuple(self._bounds.strays(known)),
            damaged=tuple(self._damage(one) for one in damaged[:256]),
            works=self._runtime.works,
            runtime=self._runtime.detail,
            burning=self._burning.runs(),
            returning=self._returning.waiting[:256],
            lost=tuple(self._lost(records))[:256],
        )

    def _lost(self, records: list[Tenancy]) -> Iterator[SeenLost]:
        """Machines that the host's restart has ended for good, as long as they are not there."""
        for one in records:
            why = self._returning.failed(one.claim)
            if why and one.present and not self._machines.is_there(one.claim):
                yield SeenLost(one.claim, _printable(why)[:500])

    def _seen(self, tenancy: Tenancy) -> SeenTenancy:
        if tenancy.kind == BAREMETAL:
            state = VmState.RUNNING if tenancy.started else VmState.DEFINED
        elif tenancy.claim in self._returning.waiting:
            # Neither stopped nor running: it is on its way.
            state = VmState.UNKNOWN
        else:
            state = self._machines.state(tenancy) if tenancy.present else VmState.STOPPED
        slots = sorted(tenancy.slots, key=lambda slot: slot.slot_index)
        return SeenTenancy(
            claim=tenancy.claim,
            name=vm_name(tenancy.claim) if tenancy.kind == SLICE else f"host-{tenancy.claim}",
            state=state,
            slots=tuple(slot.slot_index for slot in slots),
            gpus=tuple(slot.gpu_uuid for slot in slots),
            present=tenancy.present,
            image=tenancy.image,
            user=tenancy.user,
            host=tenancy.host,
            port=tenancy.port,
        )

    def _damage(self, bad: Damaged) -> SeenDamage:
        slots = () if bad.told is None else bad.told.slots
        slots = tuple(sorted(slots, key=lambda slot: slot.slot_index))
        return SeenDamage(
            file=str(bad.file)[-500:],
            why=_printable(bad.why)[:300],
            claim=bad.claim,
            name=vm_name(bad.claim) if bad.claim else "",
            running=bool(bad.claim) and self._machines.is_there(bad.claim),
            whole=bad.told is None,
            slots=tuple(slot.slot_index for slot in slots),
            gpus=tuple(slot.gpu_uuid for slot in slots),
        )

    # Making

    def _define(self, grant: Grant) -> None:
        params = grant.params
        assert isinstance(params, Provision)
        kind, slots = _tenancy_kind(params), task_slots(params)
        self._bounds.refuse_unknown(slots)
        image = self._machines.image(params.image)
        errors = {}
        if kind == SLICE and self._records.get(params.allocation_id) is None:
            # Before its turn: a driver may take its time, and every other claim waits for the turn.
            errors = self._devices.error_counts(slots)
        with self._turn:
            mine = self._records.get(params.allocation_id)
            if mine is not None:
                refuse_different(mine, kind, slots)
                return
            self._bounds.refuse_taken(params.allocation_id, slots)
            self._burning.refuse_loaded(slots)
            uid = self._owners.choose(self._bounds.uids()) if kind == SLICE else NO_UID
            self._records.put(
                Tenancy(
                    claim=params.allocation_id,
                    kind=kind,
                    image=params.image,
                    hostname=params.hostname,
                    user=image.user,
                    ssh_keys=params.ssh_keys,
                    slots=slots,
                    boot=self._boot,
                    since_us=_since_us(),
                    errors=errors,
                    uid=uid,
                )
            )

    def _attach(self, tenancy: Tenancy) -> None:
        if tenancy.kind == BAREMETAL:
            made = self._bare.install(tenancy)
        else:
            self._refuse_without_runtime()
            made = self._machines.prepare(tenancy, self._records.put)
        if made != tenancy:
            self._records.put(made)

    def _start(self, tenancy: Tenancy) -> None:
        if tenancy.kind == BAREMETAL:
            self._bare.start(tenancy)
        else:
            self._refuse_without_runtime()
            self._machines.start(tenancy)
        if not tenancy.started:
            self._records.put(replace(tenancy, started=True))

    def _refuse_without_runtime(self) -> None:
        if not self._runtime.works:
            detail = f"machines cannot run on this host: {self._runtime.detail}"
            raise BackendError(FailureCode.PREREQUISITE_MISSING, detail, retryable=True)

    def _burn_in(self, grant: Grant) -> BurnInResult:
        params = grant.params
        assert isinstance(params, BurnInParams)
        load = Unwanted(grant.envelope.task_id, grant.envelope.lease_epoch)
        with contextlib.ExitStack() as stack:
            with self._turn:
                # From here on nothing is defined on them, and nothing was before.
                self._bounds.refuse_busy(params.gpus)
                stack.enter_context(self._burning.taken(params, load))
            return self._burning.run(params)

    # Cleaning

    def _clean(self, grant: Grant, step: CleanupStep | None) -> Cleaned:
        params = grant.params
        assert isinstance(params, Release)
        assert step is not None
        if step not in REQUIRED_CLEANUP_STEPS[_task_kind(params)]:
            raise BackendError("step_unknown", f"{step} is not a step of this", retryable=False)
        slots = params.slots if not isinstance(params, BaremetalReleaseParams) else params.devices
        self._bounds.refuse_unknown(slots)
        tenancy = self._bounds.own_or_none(params, slots)
        if step is CleanupStep.VM_GONE and tenancy is None:
            tenancy = self._remade(params, slots)
        if step is CleanupStep.VM_GONE and tenancy is not None:
            # A new attempt: nothing that an earlier one has shown counts any more.
            tenancy = replace(tenancy, attempt=params.attempt, cleaned={})
            self._records.put(tenancy)
        found = [self._clean_slot(params, step, slot, tenancy) for slot in slots]
        if tenancy is not None and tenancy.attempt == params.attempt:
            done = [one.slot_index for one in found if one.steps[0].ok]
            gone = step is CleanupStep.VM_GONE and len(done) == len(slots)
            cleaned = {**tenancy.cleaned, step.value: done}
            present = tenancy.present and not gone
            self._records.put(replace(tenancy, cleaned=cleaned, present=present))
        return Cleaned(tuple(found))

    def _remade(self, params: Release, slots: tuple[SlotDevices, ...]) -> Tenancy | None:
        """Where the claim's record is damaged: another, of what the control plane has signed.

        None where there is none that is damaged. Raises BackendError.
        """
        bad = [one for one in self._bounds.damaged() if one.claim == params.allocation_id]
        if not bad:
            return None
        told = [one.told for one in bad if one.told is not None]
        if any(not one.indexes <= {slot.slot_index for slot in slots} for one in told):
            detail = "the machine has more slots than named"
            raise BackendError("allocation_differs", detail, retryable=False)
        kind = BAREMETAL if isinstance(params, BaremetalReleaseParams) else SLICE
        return remade(params.allocation_id, kind, slots, told[0].uid if told else NO_UID)

    def _clean_slot(
        self, params: Release, step: CleanupStep, slot: SlotDevices, tenancy: Tenancy | None
    ) -> SlotEvidence:
        try:
            done, ok = self._do(params, step, slot, tenancy), True
        except StepFailed as error:
            done, ok = Done("failed", str(error)), False
        detail = _printable(done.detail)[:2000]
        at = int(self._clock.now())
        return SlotEvidence(
            slot.slot_index, (EvidenceStep(step.value, ok, done.method, detail, at),)
        )

    def _do(
        self, params: Release, step: CleanupStep, slot: SlotDevices, tenancy: Tenancy | None
    ) -> Done:
        claim = params.allocation_id
        if isinstance(params, BaremetalReleaseParams):
            return self._bare.clean(claim, step, slot)
        if step is CleanupStep.VM_GONE:
            done = self._machines.end(claim, tenancy)
            if tenancy is not None and tenancy.uid == NO_UID and tenancy.rebooted:
                left = self._owners.nobodys(self._bounds.uids())
                if left:
                    raise StepFailed(f"processes run as users that no record has: {left}")
            return done
        if self._machines.is_there(claim):
            raise StepFailed("the machine is still there")
        counts = None if tenancy is None else tenancy.errors.get(slot.gpu_uuid, {})
        if tenancy is None:
            boot, since = self._boot, _since_us()
        else:
            boot, since = ("" if tenancy.rebooted else tenancy.boot), tenancy.since_us
        return device_step(self._devices, step, slot, Before(boot, since, counts))

    def _settle(self, grant: Grant) -> None:
        """Forget a claim, once every step of every slot was done in this attempt."""
        params = grant.params
        assert isinstance(params, Release)
        tenancy = self._bounds.own_or_none(params, task_slots(params))
        if tenancy is None:
            return
        required = REQUIRED_CLEANUP_STEPS[_task_kind(params)]
        missing = [
            step.value
            for step in required
            if not tenancy.indexes <= set(tenancy.cleaned.get(step.value, ()))
        ]
        if tenancy.attempt != params.attempt or missing:
            detail = f"not shown in this attempt: {', '.join(missing) or 'anything'}"
            raise BackendError(FailureCode.CLEANUP_FAILED, detail, retryable=True)
        self._records.drop(tenancy.claim)

    # Refusing

    def _tenancy(self, grant: Grant) -> Tenancy:
        """What the claim has here, where it is what the task is about. Raises BackendError."""
        params = grant.params
        assert isinstance(params, Provision)
        tenancy = self._records.get(grant.claim)
        if tenancy is None or not tenancy.present:
            detail = "this claim has nothing on this host"
            raise BackendError("claim_unknown", detail, retryable=True)
        refuse_different(tenancy, _tenancy_kind(params), task_slots(params))
        return tenancy


def _tenancy_kind(params: Provision) -> str:
    return BAREMETAL if isinstance(params, BaremetalProvisionParams) else SLICE


def _task_kind(params: Release) -> TaskKind:
    bare = isinstance(params, BaremetalReleaseParams)
    return TaskKind.BAREMETAL_RELEASE if bare else TaskKind.VM_RELEASE


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _since_us() -> int:
    """Where the kernel's log is now, in its own time, with a margin for its rounding.

    The log's time is the counter's own, which no time server corrects.
    """
    return max(0, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000 - _MARGIN_US)
