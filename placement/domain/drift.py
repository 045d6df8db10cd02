"""How does what is wanted of a host differ from what it reports and from what is being done?  Pure.

Everything is read from one frozen picture of the host. Silence proves nothing: while the last
report is old, or of another boot, only that is said, and what was known before stays as it was.
Each kind of difference declares for how long it may be a passing thing, who acts upon it, and the
one repair that may be tried by itself. A repair never destroys what is not ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

FRESH_S: Final = 60.0
"""A report that is older than this proves nothing any more."""
SETTLE_S: Final = 60.0
"""A report may have been under way when a machine was made, or a release ended."""
LATE_S: Final = 120.0
"""How long after its time a task may stay before something is wrong with it."""
BACK_OFF_S: Final = (30, 60, 120, 300, 900)

PLATFORM, OPERATOR, NODE = "platform", "operator", "node"
ACTORS: Final = (PLATFORM, OPERATOR, NODE)
HIGH, MEDIUM, LOW = "high", "medium", "low"
SEVERITIES: Final = (HIGH, MEDIUM, LOW)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is declared of one kind: who acts, by which repair, how often, and after how long.

    ``from_report``: it can be judged only by a fresh report. ``upon_host``: its repair is counted
    against the breaker. ``acceptable``: an operator may let it stand, with a reason.
    """

    severity: str
    actor: str
    grace_s: float = 0.0
    repair: str = ""
    most: int = 0
    from_report: bool = True
    upon_host: bool = False
    acceptable: bool = True


RELEASE_ORPHAN, DISCOVER, FOLLOW_ADDRESS, REBIND = "release", "discover", "follow", "rebind"
WAKE_RUN, END_UNMADE, HAND_OVER = "wake", "end", "hand_over"

KINDS: Final[Mapping[str, Kind]] = {
    "vm_missing": Kind(HIGH, OPERATOR, 60.0),
    "vm_unknown": Kind(HIGH, OPERATOR),
    "vm_state": Kind(LOW, OPERATOR, 60.0),
    "vm_elsewhere": Kind(HIGH, OPERATOR, 60.0),
    "released_but_present": Kind(
        HIGH, PLATFORM, repair=RELEASE_ORPHAN, most=3, upon_host=True, acceptable=False
    ),
    "address_changed": Kind(MEDIUM, PLATFORM, repair=FOLLOW_ADDRESS, most=3),
    "boot_changed_under_claim": Kind(MEDIUM, PLATFORM, repair=REBIND, most=3),
    "device_missing": Kind(HIGH, PLATFORM, 30.0, repair=DISCOVER, most=2),
    "device_unknown": Kind(MEDIUM, PLATFORM, 30.0, repair=DISCOVER, most=2),
    "device_differs": Kind(HIGH, OPERATOR, from_report=False, acceptable=False),
    "device_offered": Kind(LOW, OPERATOR, from_report=False),
    "residue": Kind(HIGH, OPERATOR, 60.0, from_report=False, acceptable=False),
    "task_stuck": Kind(MEDIUM, PLATFORM, repair=WAKE_RUN, most=3, from_report=False),
    "making_stopped": Kind(
        HIGH, PLATFORM, 30.0, repair=END_UNMADE, most=3, from_report=False, acceptable=False
    ),
    "release_stopped": Kind(
        HIGH, PLATFORM, 30.0, repair=HAND_OVER, most=3, from_report=False, acceptable=False
    ),
    "observed_stale": Kind(MEDIUM, OPERATOR, from_report=False),
    "not_comparable": Kind(MEDIUM, OPERATOR, from_report=False),
}
"""Every kind there is. Its reason code is ``drift_`` and its name."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as a report names it; ``ref`` is the allocation that the host says it is of."""

    ref: str
    name: str
    state: str
    slots: tuple[int, ...]
    address: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The last report: its age, its boot, machines, and GPUs by UUID (present, absent, unknown).

    ``troubles``: what it says is wrong with a machine, code and words, by allocation.
    """

    age_s: float
    boot: str
    machines: tuple[Machine, ...] = ()
    gpus: Mapping[str, str] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holding:
    """An allocation on the host that has not ended. ``worked_on``: a task or run of it is open.

    ``claims``: (slot, boot in which it was handed over); the slot of a whole host is -1.
    """

    id: str
    state: str
    since_s: float
    worked_on: bool
    claims: tuple[tuple[int, str], ...] = ()
    address: tuple[str, int] | None = None

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that it holds."""
        return tuple(slot for slot, _ in self.claims)


@dataclass(frozen=True, slots=True)
class Known:
    """An allocation that a machine names and that is not held here: ended here, or elsewhere."""

    id: str
    here: bool
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class Work:
    """A task that has not ended, and how many seconds it is past its lease or its deadline."""

    id: str
    kind: str
    late_s: float


@dataclass(frozen=True, slots=True)
class SlotFact:
    """A slot that is sold or blocked, the GPU that it stands for, and whether it is held."""

    index: int
    gpu: str
    held: bool
    residue: str = ""


@dataclass(frozen=True, slots=True)
class DeviceDifference:
    """What the last discovery saw otherwise than approved (``domain.identity``)."""

    code: str
    outcome: str
    slot: int | None
    gpu: str
    detail: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host at one moment. ``silent_s`` is None for a host that has never been heard."""

    boot: str
    silent_s: float | None
    report: Report | None
    holdings: tuple[Holding, ...] = ()
    known: tuple[Known, ...] = ()
    work: tuple[Work, ...] = ()
    slots: tuple[SlotFact, ...] = ()
    devices: tuple[DeviceDifference, ...] = ()

    @property
    def heard(self) -> Report | None:
        """The report, if it proves anything now: it is fresh and of the boot that polls."""
        report = self.report
        if report is None or report.age_s > FRESH_S or report.boot != self.boot:
            return None
        return report


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: its kind, what it is about, the slots that it touches, and in words."""

    kind: str
    subject: str
    detail: str
    slots: tuple[int, ...] = ()
    allocation: str = ""

    @property
    def code(self) -> str:
        """The permanent reason code."""
        return f"drift_{self.kind}"


@dataclass(frozen=True, slots=True)
class Compared:
    """What differs, and the kinds that could be judged at all."""

    differences: tuple[Difference, ...]
    judged: frozenset[str]


def compare(facts: HostFacts) -> Compared:
    """Everything that differs on one host now."""
    found: list[Difference] = [
        *_stale(facts),
        *_stopped(facts),
        *_work(facts),
        *_inventory(facts),
    ]
    heard = facts.heard
    if heard is not None:
        for part in (_machines, _strangers, _gpus):
            found += part(facts, heard)
    judged = frozenset(n for n, kind in KINDS.items() if heard is not None or not kind.from_report)
    return Compared(tuple(found), judged)


def _stale(facts: HostFacts) -> Iterator[Difference]:
    if facts.silent_s is None or (facts.silent_s <= FRESH_S and facts.heard is not None):
        return
    if facts.silent_s > FRESH_S:
        said = f"nothing was heard of it for {int(facts.silent_s)} s"
    elif facts.report is None:
        said = "it polls, and has reported nothing of this boot yet"
    else:
        said = f"it polls, and its last report is {int(facts.report.age_s)} s old"
    yield Difference("observed_stale", "node", f"{said}; what it has is unknown")


def _stopped(facts: HostFacts) -> Iterator[Difference]:
    """Allocations that should be on their way, and that nothing is moving."""
    for one in facts.holdings:
        if one.worked_on or one.since_s < SETTLE_S:
            continue
        subject = f"allocation:{one.id}"
        if one.state in ("placed", "provisioning"):
            said = f"it is {one.state}, and no task and no run is at work on it"
            yield Difference("making_stopped", subject, said, one.slots, one.id)
        elif one.state == "releasing":
            said = "it is being released, and no task and no run is at work on it"
            yield Difference("release_stopped", subject, said, one.slots, one.id)


def _work(facts: HostFacts) -> Iterator[Difference]:
    for task in facts.work:
        if task.late_s > LATE_S:
            said = f"{task.kind} is {int(task.late_s)} s past its time"
            yield Difference("task_stuck", f"task:{task.id}", said)


def _inventory(facts: HostFacts) -> Iterator[Difference]:
    for slot in facts.slots:
        if slot.residue and not slot.held:
            said = f"traces of an earlier tenant: {slot.residue}"
            yield Difference("residue", f"slot:{slot.index}", said, (slot.index,))
    for one in facts.devices:
        kind = {"block": "device_differs", "offer": "device_offered"}.get(one.outcome)
        if kind is None:
            continue
        where = "node" if one.slot is None else f"slot:{one.slot}"
        touched = () if one.slot is None else (one.slot,)
        said = f"{one.code}: {one.detail}"
        yield Difference(kind, f"{where}:{one.code}:{one.gpu}"[:160], said, touched)


def _machines(facts: HostFacts, report: Report) -> Iterator[Difference]:
    """What is held, against the machines that are there."""
    machines = {one.ref: one for one in report.machines if one.ref}
    for held in facts.holdings:
        machine = machines.get(held.id)
        if held.state not in ("active", "preempting") or held.since_s < SETTLE_S:
            continue

        def differs(kind: str, said: str, held: Holding = held) -> Difference:
            return Difference(kind, f"allocation:{held.id}", said, held.slots, held.id)

        if machine is None:
            yield differs("vm_missing", "the host has no machine of it")
            continue
        if machine.state in ("stopped", "defined"):
            why = report.troubles.get(held.id, "")
            said = f"its machine is {machine.state}, and should run"
            yield differs("vm_state", f"{said}: {why}" if why else said)
        elif machine.state == "running" and any(
            boot and boot != report.boot for _, boot in held.claims
        ):
            said = "its machine runs in another boot than the one in which it was handed over"
            yield differs("boot_changed_under_claim", said)
        own = frozenset(held.slots)
        if -1 not in own and machine.slots and frozenset(machine.slots) != own:
            has = ", ".join(map(str, machine.slots))
            yield differs("vm_elsewhere", f"its machine is said to be on slots {has}")
        if machine.address and held.address and machine.address != held.address:
            host, port = machine.address
            yield differs("address_changed", f"its machine answers at {host}:{port}")


def _strangers(facts: HostFacts, report: Report) -> Iterator[Difference]:
    """Machines that nothing here holds: ended ones of ours, and those that never were."""
    held = {one.id for one in facts.holdings}
    known = {one.id: one for one in facts.known}
    for machine in report.machines:
        if machine.ref in held:
            continue
        ours = known.get(machine.ref)
        if ours is not None and ours.here and ours.ended_s is not None:
            if ours.ended_s >= SETTLE_S:
                said = f"{machine.name} is of an allocation that ended {int(ours.ended_s)} s ago"
                yield Difference(
                    "released_but_present",
                    f"allocation:{ours.id}",
                    said,
                    machine.slots,
                    ours.id,
                )
            continue
        said = f"{machine.name} is nothing that was asked for here"
        if ours is not None:
            said = f"{machine.name} is of an allocation that is on another host"
        yield Difference("vm_unknown", f"vm:{machine.name}"[:160], said, machine.slots)


def _gpus(facts: HostFacts, report: Report) -> Iterator[Difference]:
    mine = {slot.gpu: slot.index for slot in facts.slots}
    offered = {one.gpu for one in facts.devices if one.gpu}
    for gpu, presence in sorted(report.gpus.items()):
        index = mine.get(gpu)
        if index is not None and presence == "absent":
            said = f"the GPU of slot {index}, {gpu}, is not there"
            yield Difference("device_missing", f"gpu:{gpu}", said, (index,))
        elif index is None and presence == "present" and gpu not in offered and mine:
            yield Difference("device_unknown", f"gpu:{gpu}", f"no slot has the GPU {gpu}")


def back_off_s(attempts: int) -> int:
    """Seconds until the next try after so many."""
    return BACK_OFF_S[min(attempts, len(BACK_OFF_S)) - 1] if attempts else 0
