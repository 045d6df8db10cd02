"""What does NVML say that a GPU is?  Nothing that changes by the second; that is telemetry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.host.nvml.fabric import read_fabric
from nodeagent.host.nvml.library import LOST, NvmlSession
from nodeagent.topology.pci import normal_address

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{7,79}")
# What drivers and virtual machine monitors write where they have nothing to say.
SENTINEL_TEXTS = frozenset(
    {"", "n/a", "[n/a]", "none", "unknown", "unknown error", "not supported", "[not supported]"}
    | {"err!", "0", "-1"}
)
SENTINEL_NUMBERS = frozenset({2**32 - 1, 2**64 - 1, 2**31 - 1, 2**63 - 1, -1})
_MOST_MEMORY = 2**50
_MEBI = 2**20
_MOST_LINKS = 36
_MOST_MIG = 16
_LINK_MISSES = 3
RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
_FIELD_RECOVERY = 230
_NO_ACTION = 2**16
"""From here on it is no number of an action, but one that nobody has written."""
LINK_GPU, LINK_CPU, LINK_SWITCH = "gpu", "cpu", "switch"
_LINK_KINDS = {0: LINK_GPU, 1: LINK_CPU, 2: LINK_SWITCH}


@dataclass(frozen=True)
class LinkRecord:
    """One NVLink port."""

    number: int
    active: Fact[bool]
    remote_pci: Fact[str]
    remote_kind: Fact[str]


@dataclass(frozen=True)
class MigRecord:
    """One MIG instance."""

    uuid: Fact[str]
    gpu_instance: Fact[int]
    compute_instance: Fact[int]
    memory_bytes: Fact[int]
    profile: Fact[str]


@dataclass(frozen=True)
class GpuRecord:
    """One GPU as NVML counts it. `handle` says why it cannot be asked at all, if so."""

    number: int
    handle: Fact[bool]
    uuid: Fact[str]
    pci: Fact[str]
    name: Fact[str]
    memory_bytes: Fact[int]
    facts: dict[str, Fact[Any]]
    links: tuple[LinkRecord, ...]
    mig: tuple[MigRecord, ...]
    fabric: Fact[tuple[str, int]]

    @property
    def lost(self) -> bool:
        """Whether the driver has lost it, before or while it was read: what it said is past."""
        told = [self.handle.reason, self.uuid.reason, self.pci.reason, self.name.reason]
        told += [self.memory_bytes.reason, self.fabric.reason]
        told += [fact.reason for fact in self.facts.values()]
        told += [link.active.reason for link in self.links]
        return not LOST.isdisjoint(told)


def read_gpus(session: NvmlSession, *, wiring: bool = True) -> list[GpuRecord]:
    """Every GPU the driver counts, each by itself. Raises NvmlUnavailable.

    wiring: also its links and MIG instances, which are some fifty calls more for each GPU.
    """
    return [_read_gpu(session, number, wiring) for number in range(session.count())]


def _read_gpu(session: NvmlSession, number: int, wiring: bool) -> GpuRecord:
    found = session.ask(pynvml.nvmlDeviceGetHandleByIndex, number)
    if found.value is None:
        lost: Fact[Any] = unknown(found.reason)
        names = (*_PLAIN, *_MIG_FACTS, *_ECC_FACTS, *_REMAP_FACTS, *_OTHER_FACTS)
        facts = {name: lost for name in names}
        return GpuRecord(number, lost, lost, lost, lost, lost, facts, (), (), lost)
    handle = found.value
    facts = {
        name: plain_text(session.ask(call, handle)) if text else session.ask(call, handle)
        for name, (call, text) in _PLAIN.items()
    }
    facts |= _now_and_later(_MIG_FACTS, session.ask(pynvml.nvmlDeviceGetMigMode, handle))
    ecc = session.ask(pynvml.nvmlDeviceGetEccMode, handle)
    facts |= _now_and_later(_ECC_FACTS, ecc)
    facts["persistence"] = session.ask(pynvml.nvmlDeviceGetPersistenceMode, handle).map(_switch)
    facts |= _remapped(session, handle)
    facts["recovery_action"] = _recovery(session, handle)
    memory = session.ask(pynvml.nvmlDeviceGetMemoryInfo, handle).map(lambda info: int(info.total))
    return GpuRecord(
        number=number,
        handle=present(True),
        uuid=uuid_in(session.ask(pynvml.nvmlDeviceGetUUID, handle)),
        pci=address(session.ask(pynvml.nvmlDeviceGetPciInfo, handle)),
        name=plain_text(session.ask(pynvml.nvmlDeviceGetName, handle)),
        memory_bytes=bounded(memory, 1, _MOST_MEMORY),
        facts=facts,
        links=_links(session, handle) if wiring else (),
        mig=_mig_instances(session, handle, facts["mig_mode"]) if wiring else (),
        fabric=read_fabric(session, handle) if wiring else unknown("not_asked"),
    )


_PLAIN: dict[str, tuple[Callable[..., Any], bool]] = {
    "serial": (pynvml.nvmlDeviceGetSerial, True),
    "vbios": (pynvml.nvmlDeviceGetVbiosVersion, True),
    "board_part": (pynvml.nvmlDeviceGetBoardPartNumber, True),
    "minor": (pynvml.nvmlDeviceGetMinorNumber, False),
}
_MIG_FACTS = ("mig_mode", "mig_mode_pending")
_ECC_FACTS = ("ecc_mode", "ecc_mode_pending")
_OTHER_FACTS = ("persistence", "recovery_action")
_REMAP_FACTS = (
    "remapped_rows_correctable",
    "remapped_rows_uncorrectable",
    "remapped_rows_pending",
    "remapped_rows_failed",
)


def plain_text(fact: Fact[Any]) -> Fact[str]:
    """A text that says something, or unknown; words that stand for nothing are not names."""
    if fact.value is None:
        return Fact(fact.presence, None, fact.reason)
    raw = fact.value
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "replace")
    text = str(raw).strip()
    if text.lower() in SENTINEL_TEXTS:
        return unknown("sentinel")
    if not text.isprintable() or "\ufffd" in text:
        return unknown("unreadable_text")
    return present(text[:200])


def bounded(fact: Fact[int], least: int, most: int) -> Fact[int]:
    """A number within its range, or unknown: a sentinel or a nonsense value is no number."""
    if fact.value is None:
        return fact
    if fact.value in SENTINEL_NUMBERS:
        return unknown("sentinel")
    return fact if least <= fact.value <= most else unknown("out_of_range")


def address(info: Fact[Any]) -> Fact[str]:
    """The PCI address in NVML's structure, in the kernel's form."""
    if info.value is None:
        return Fact(info.presence, None, info.reason)
    raw = getattr(info.value, "busId", "")
    if isinstance(raw, bytes):
        raw = raw.decode("ascii", "replace")
    found = normal_address(str(raw))
    return unknown("unreadable_address") if found is None else present(found)


def uuid_in(fact: Fact[Any]) -> Fact[str]:
    """A UUID that can be one card's, or unknown."""
    text = plain_text(fact)
    if text.value is None:
        return text
    if not _UUID.fullmatch(text.value):
        return unknown("bad_uuid")
    # A card whose inforom is gone says a UUID of zeros, and so does the next such card.
    digits = text.value.removeprefix("GPU-").replace("-", "")
    return unknown("blank_uuid") if not digits.strip("0") else text


def _now_and_later(names: tuple[str, str], modes: Fact[Any]) -> dict[str, Fact[Any]]:
    """A mode as it is, and as it will be after the next reset."""
    now, later = modes.map(lambda pair: _switch(pair[0])), modes.map(lambda pair: _switch(pair[1]))
    return dict(zip(names, (now, later), strict=True))


def _switch(value: int) -> str:
    return "enabled" if value else "disabled"


def _remapped(session: NvmlSession, handle: Any) -> dict[str, Fact[Any]]:
    rows = session.ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    if rows.value is None:
        return dict.fromkeys(_REMAP_FACTS, rows)
    numbers = (present(int(number)) for number in rows.value)
    return {
        name: bounded(number, 0, 2**31 - 2)
        for name, number in zip(_REMAP_FACTS, numbers, strict=True)
    }


def _recovery(session: NvmlSession, handle: Any) -> Fact[str]:
    number = field_value(session, handle, _FIELD_RECOVERY)
    if number.value is None:
        return Fact(number.presence, None, number.reason)
    if not 0 <= number.value < _NO_ACTION:
        return unknown("out_of_range")
    # One that a newer driver asks for is an action all the same: only nothing is nothing.
    return present(RECOVERY_ACTIONS.get(number.value, f"action_{number.value}"))


def field_value(session: NvmlSession, handle: Any, field: int, scope: int = 0) -> Fact[int]:
    """One of NVML's numbered fields. Each has a return code and a type of its own."""
    asked = session.ask(pynvml.nvmlDeviceGetFieldValues, handle, [(field, scope)])
    if asked.value is None:
        return Fact(asked.presence, None, asked.reason)
    entry = asked.value[0]
    if entry.nvmlReturn != 0:
        return session.ask(_raise, int(entry.nvmlReturn))
    value = entry.value
    by_type = {0: value.dVal, 1: value.uiVal, 2: value.ulVal, 3: value.ullVal, 4: value.sllVal}
    if entry.valueType not in by_type:
        return unknown("unreadable_answer")
    number = by_type[entry.valueType]
    if number != number or number in (float("inf"), float("-inf")):
        return unknown("out_of_range")
    return present(int(number))


def _raise(code: int) -> Any:
    raise pynvml.NVMLError(code)


def _links(session: NvmlSession, handle: Any) -> tuple[LinkRecord, ...]:
    """The ports in order; the end of the ports is told by the driver's refusals."""
    found: list[LinkRecord] = []
    misses = 0
    for number in range(_MOST_LINKS):
        active: Fact[bool] = session.ask(pynvml.nvmlDeviceGetNvLinkState, handle, number).map(
            lambda state: state == 1
        )
        if active.value is None and active.reason in ("not_supported", "invalid_argument"):
            misses += 1
            if misses >= _LINK_MISSES:
                break
            continue
        nobody: Fact[Any] = absent("link_down") if active.value is False else unknown(active.reason)
        if active.value:
            remote = address(session.ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number))
            kind = _link_kind(session, handle, number)
        else:
            remote, kind = nobody, nobody
        found.append(LinkRecord(number, active, remote, kind))
    return tuple(found)


def _link_kind(session: NvmlSession, handle: Any, number: int) -> Fact[str]:
    kind = session.ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
    if kind.value is None:
        return Fact(kind.presence, None, kind.reason)
    known = _LINK_KINDS.get(int(kind.value))
    return unknown("unknown_kind") if known is None else present(known)


def _mig_instances(session: NvmlSession, handle: Any, mode: Fact[Any]) -> tuple[MigRecord, ...]:
    if mode.value != "enabled":
        return ()
    whole = session.ask(pynvml.nvmlDeviceGetMemoryInfo, handle).map(lambda info: int(info.total))
    most = session.ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    found: list[MigRecord] = []
    for place in range(min(int(most.value or 0), _MOST_MIG)):
        instance = session.ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
        if instance.value is None:
            # Places without an instance are "not found"; instances need not be in the first ones.
            continue
        mig = instance.value
        attributes = session.ask(pynvml.nvmlDeviceGetAttributes, mig)
        size = attributes.map(lambda found: int(found.memorySizeMB) * 2**20)
        found.append(
            MigRecord(
                uuid=uuid_in(session.ask(pynvml.nvmlDeviceGetUUID, mig)),
                gpu_instance=session.ask(pynvml.nvmlDeviceGetGpuInstanceId, mig),
                compute_instance=session.ask(pynvml.nvmlDeviceGetComputeInstanceId, mig),
                memory_bytes=bounded(size, 1, _MOST_MEMORY),
                profile=_profile(attributes, whole),
            )
        )
    return tuple(found)


def _profile(attributes: Fact[Any], whole: Fact[int]) -> Fact[str]:
    """The name as in `nvidia-smi mig -lgip`: slices and gigabytes, for example 3g.40gb.

    What an instance can use is less than its name says: its gigabytes are those eighths of the
    whole card that it takes, rounded (MIG User Guide, "GPU Instance Profiles").
    """
    if attributes.value is None:
        return Fact(attributes.presence, None, attributes.reason)
    if not whole.value or not 0 < attributes.value.memorySizeMB * _MEBI <= whole.value:
        return unknown("out_of_range")
    eighths = -(-attributes.value.memorySizeMB * _MEBI * 8 // whole.value)
    gigabytes = (eighths * -(-whole.value // 2**30) + 4) // 8
    slices, computing = (
        int(attributes.value.gpuInstanceSliceCount),
        int(attributes.value.computeInstanceSliceCount),
    )
    part = "" if computing == slices else f"{computing}c."
    return present(f"{part}{slices}g.{gigabytes}gb")
