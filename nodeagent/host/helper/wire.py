"""What may be said to the helper? One verb with typed arguments, one answer, both bounded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    CleanupStep,
    Message,
    SlotEvidence,
    TaskKind,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
    VmState,
    WireError,
    parse_params,
)
from nodeagent.protocol.codec import Integer, Many, Text
from nodeagent.protocol.messages import AllocationId
from nodeagent.protocol.topology import Id

MOST_BYTES = 1024 * 1024


class Verb(StrEnum):
    """Everything that the helper does."""

    INSPECT = "inspect"
    DEFINE = "define"
    ATTACH = "attach"
    START = "start"
    CLEAN = "clean"
    SETTLE = "settle"
    BURN_IN = "burn_in"
    END_BURN_IN = "end_burn_in"


Provision = VmProvisionParams | BaremetalProvisionParams
Release = VmReleaseParams | BaremetalReleaseParams


@dataclass(frozen=True)
class Request:
    """One request. params: of define, clean, settle and burn_in; step: of clean alone.

    load: of burn_in and end_burn_in, by which task and lease.
    """

    verb: Verb
    claim: str = ""
    kind: TaskKind | None = None
    params: Provision | Release | BurnInParams | None = None
    step: CleanupStep | None = None
    load: Unwanted | None = None


@dataclass(frozen=True)
class _Claimed(Message):
    claim: AllocationId


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
class Inspection(Message):
    """Everything that is on the host. runtime: what probing found; works: machines can run.

    burning: a burn-in's load runs, whether the agent that asked for it lives or not.
    """

    tenancies: Annotated[tuple[SeenTenancy, ...], Many(256)]
    strays: Annotated[tuple[SeenStray, ...], Many(256)]
    works: bool
    runtime: Annotated[str, Text(1000)]
    burning: bool = False


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
    if verb is Verb.INSPECT:
        _only(rest)
        return Request(verb)
    if verb in (Verb.ATTACH, Verb.START):
        return Request(verb, claim=_Claimed.from_json(rest).claim)
    if verb in (Verb.BURN_IN, Verb.END_BURN_IN):
        _only(rest, {"params", "load"} if verb is Verb.BURN_IN else {"load"})
        load = Unwanted.from_json(rest.get("load"), "/load")
        if verb is Verb.END_BURN_IN:
            return Request(verb, load=load)
        burning = BurnInParams.from_json(rest.get("params"), "/params")
        return Request(verb, kind=TaskKind.BURN_IN, params=burning, load=load)
    return _with_params(verb, rest)


def _with_params(verb: Verb, rest: dict[str, Any]) -> Request:
    wanted = {"kind", "params", "step"} if verb is Verb.CLEAN else {"kind", "params"}
    _only(rest, wanted)
    kind = _word(rest, "kind", TaskKind)
    params = parse_params(kind, rest.get("params"))
    making = isinstance(params, VmProvisionParams | BaremetalProvisionParams)
    releasing = isinstance(params, VmReleaseParams | BaremetalReleaseParams)
    if not (making if verb is Verb.DEFINE else releasing):
        raise WireError("/kind", "unknown_value", "this verb is not for that kind of task")
    assert isinstance(params, Provision | Release)
    step = _word(rest, "step", CleanupStep) if verb is Verb.CLEAN else None
    return Request(verb, params.allocation_id, kind, params, step)


def _word(rest: dict[str, Any], name: str, words: Any) -> Any:
    try:
        return words(rest.get(name))
    except ValueError:
        raise WireError(f"/{name}", "unknown_value", f"not a known {name}") from None


def _only(rest: dict[str, Any], wanted: Collection[str] = ()) -> None:
    for name in rest:
        if name not in wanted:
            raise WireError(f"/{name}", "unknown_field", "not a field of this verb")
