"""What may be said to the helper? One verb with typed arguments, one answer, both bounded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

from nodeagent.host.facts import Fact
from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    CleanupStep,
    Message,
    Presence,
    RefusalCode,
    SignedTask,
    SlotEvidence,
    TaskKind,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
    VmState,
    WireError,
)
from nodeagent.protocol.codec import Integer, Many, Text
from nodeagent.protocol.messages import AllocationId
from nodeagent.protocol.topology import Id

MOST_BYTES = 1024 * 1024
TASK_MISSING = RefusalCode.TASK_MISSING.value


class Verb(StrEnum):
    """Everything that the helper does."""

    INSPECT = "inspect"
    TRUST = "trust"
    BELIEF = "belief"
    SURVEY = "survey"
    HOLDERS = "holders"
    END_BURN_IN = "end_burn_in"
    TAKE = "take"
    DEFINE = "define"
    ATTACH = "attach"
    START = "start"
    CLEAN = "clean"
    SETTLE = "settle"
    BURN_IN = "burn_in"


_LOOKS = frozenset({Verb.INSPECT, Verb.TRUST, Verb.BELIEF, Verb.SURVEY, Verb.HOLDERS})
WITHOUT_TASK = _LOOKS | {Verb.END_BURN_IN}
"""All but one only look. To end a burn-in's load gives nothing to anybody: what is killed has not
passed, and it must be possible also where the task that began it is known to nobody any more."""

_MAKES = frozenset({Verb.TAKE, Verb.DEFINE, Verb.ATTACH, Verb.START})
_RELEASES = frozenset({Verb.TAKE, Verb.CLEAN, Verb.SETTLE})
VERBS_OF = MappingProxyType(
    {
        TaskKind.VM_PROVISION: _MAKES,
        TaskKind.BAREMETAL_PROVISION: _MAKES,
        TaskKind.VM_RELEASE: _RELEASES,
        TaskKind.BAREMETAL_RELEASE: _RELEASES,
        TaskKind.BURN_IN: frozenset({Verb.TAKE, Verb.BURN_IN}),
    }
)
"""What a task allows. A discovery has nothing done."""

Provision = VmProvisionParams | BaremetalProvisionParams
Release = VmReleaseParams | BaremetalReleaseParams


@dataclass(frozen=True)
class Request:
    """One request. task: of every verb that a task causes; step: of clean; load: of end_burn_in."""

    verb: Verb
    task: SignedTask | None = None
    step: CleanupStep | None = None
    load: Unwanted | None = None


@dataclass(frozen=True)
class Trust(Message):
    """Whether a task of the control plane's would be taken now; detail: why not, or by what."""

    works: bool
    detail: Annotated[str, Text(2000, least=0, multiline=True)]


@dataclass(frozen=True)
class Belief(Message):
    """For which node the helper takes this host, and whose orders it takes: public keys in base64.

    Both are empty where its file of keys cannot be used; `trust` says why. A verb of its own, since
    an agent of before takes an answer with more members than it knows for none.
    """

    ignores_unknown: ClassVar[bool] = True
    node_id: Annotated[str, Text(64, least=0)]
    keys: Annotated[tuple[Annotated[str, Text(64)], ...], Many(8)]


@dataclass(frozen=True)
class SeenSerial(Message):
    """A GPU's serial number in configuration space, or why there is none."""

    ignores_unknown: ClassVar[bool] = True
    pci: Id
    presence: Presence
    serial: Annotated[str, Text(16, least=0)]
    reason: Annotated[str, Text(40, least=0)]

    @classmethod
    def of(cls, pci: str, fact: Fact[str]) -> Self:
        """What was read of one card."""
        return cls(pci, fact.presence, fact.value or "", fact.reason)

    def fact(self) -> Fact[str]:
        """As a discovery has it."""
        return Fact(self.presence, self.serial or None, self.reason)


@dataclass(frozen=True)
class Survey(Message):
    """What the agent cannot see of its host: block devices that the first process has mounted, and
    the GPUs' serial numbers.

    unreadable: why these may not be all, '' where they are.
    """

    ignores_unknown: ClassVar[bool] = True
    names: Annotated[tuple[Annotated[str, Text(32)], ...], Many(4096)]
    numbers: Annotated[tuple[Annotated[str, Text(16)], ...], Many(4096)]
    unreadable: Annotated[str, Text(500, least=0)]
    serials: Annotated[tuple[SeenSerial, ...], Many(256)] = ()


@dataclass(frozen=True)
class SeenHolder(Message):
    """A process of the host that has a GPU open."""

    ignores_unknown: ClassVar[bool] = True
    gpu: Id
    pid: Annotated[int, Integer(1, 2**32)]
    name: Annotated[str, Text(64)]


@dataclass(frozen=True)
class Held(Message):
    """Who has GPUs open that could go to machines otherwise.

    unseen: processes that may not be looked into. unknown: GPUs of which nobody can say it.
    """

    ignores_unknown: ClassVar[bool] = True
    holders: Annotated[tuple[SeenHolder, ...], Many(1024)]
    unseen: Annotated[tuple[Annotated[int, Integer(1, 2**32)], ...], Many(4096)]
    unknown: Annotated[tuple[Id, ...], Many(256)]


@dataclass(frozen=True)
class SeenTenancy(Message):
    """A tenancy as the helper sees it now. gpus: those of its slots, in the same order."""

    claim: AllocationId
    name: Annotated[str, Text(120)]
    state: VmState
    slots: Annotated[tuple[Annotated[int, Integer(0, 4095)], ...], Many(256)]
    present: bool
    image: Annotated[str, Text(120)]
    user: Annotated[str, Text(32, least=0)]
    host: Annotated[str, Text(253, least=0)]
    port: Annotated[int, Integer(0, 65535)]
    gpus: Annotated[tuple[Id, ...], Many(256)] = ()


@dataclass(frozen=True)
class SeenStray(Message):
    """A machine that nobody asked this host for. slots: those whose devices it has.

    beyond: it has a device that is no slot's, or none at all, so that what it touches is unknown.
    """

    name: Annotated[str, Text(120)]
    slots: Annotated[tuple[Annotated[int, Integer(0, 4095)], ...], Many(256)]
    beyond: bool = True


@dataclass(frozen=True)
class SeenDamage(Message):
    """A record that cannot be read. claim: whose it is, '' unknown; running: its machine is there.

    gpus: of the slots that it names, in the order of slots. whole: it may be about any slot.
    """

    ignores_unknown: ClassVar[bool] = True
    file: Annotated[str, Text(500)]
    why: Annotated[str, Text(300, least=0)]
    claim: Annotated[str, Text(64, least=0)]
    name: Annotated[str, Text(120, least=0)]
    running: bool
    whole: bool
    slots: Annotated[tuple[Annotated[int, Integer(0, 4095)], ...], Many(256)] = ()
    gpus: Annotated[tuple[Id, ...], Many(256)] = ()


@dataclass(frozen=True)
class SeenLost(Message):
    """A claim whose machine ran before the host's own restart and could not be started again."""

    ignores_unknown: ClassVar[bool] = True
    claim: AllocationId
    why: Annotated[str, Text(500)]


@dataclass(frozen=True)
class Inspection(Message):
    """Everything that is on the host. runtime: what probing found; works: machines can run.

    burning: a burn-in's load runs, whether the agent that asked for it lives or not. returning:
    claims whose machines of before the host's restart are still to be started again. damaged,
    returning and lost are left out where there is none, since an agent of before knows none.
    """

    left_out_when_empty: ClassVar[frozenset[str]] = frozenset({"damaged", "returning", "lost"})

    tenancies: Annotated[tuple[SeenTenancy, ...], Many(256)]
    strays: Annotated[tuple[SeenStray, ...], Many(256)]
    works: bool
    runtime: Annotated[str, Text(1000)]
    burning: bool = False
    damaged: Annotated[tuple[SeenDamage, ...], Many(256)] = ()
    returning: Annotated[tuple[AllocationId, ...], Many(256)] = ()
    lost: Annotated[tuple[SeenLost, ...], Many(256)] = ()


@dataclass(frozen=True)
class Cleaned(Message):
    """What one step did to each slot."""

    evidence: Annotated[tuple[SlotEvidence, ...], Many(256)]


def parse_request(raw: Any) -> Request:
    """A request, strictly. Raises WireError."""
    if not isinstance(raw, dict) or not isinstance(raw.get("verb"), str):
        raise WireError("/verb", "missing", "a request names its verb")
    try:
        verb = Verb(raw["verb"])
    except ValueError:
        raise WireError("/verb", "unknown_value", "not one of the helper's verbs") from None
    rest = {key: value for key, value in raw.items() if key != "verb"}
    if verb in _LOOKS:
        _only(rest)
        return Request(verb)
    if verb is Verb.END_BURN_IN:
        _only(rest, {"load"})
        return Request(verb, load=Unwanted.from_json(rest.get("load"), "/load"))
    if "task" not in rest:
        raise WireError("/task", TASK_MISSING, "this verb comes with the task that causes it")
    _only(rest, {"task", "step"} if verb is Verb.CLEAN else {"task"})
    step = _word(rest, "step", CleanupStep) if verb is Verb.CLEAN else None
    return Request(verb, SignedTask.from_json(rest["task"], "/task"), step)


def _word(rest: dict[str, Any], name: str, words: Any) -> Any:
    try:
        return words(rest.get(name))
    except ValueError:
        raise WireError(f"/{name}", "unknown_value", f"not a known {name}") from None


def _only(rest: dict[str, Any], wanted: Collection[str] = ()) -> None:
    for name in rest:
        if name not in wanted:
            raise WireError(f"/{name}", "unknown_field", "not a field of this verb")
