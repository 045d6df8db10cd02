"""What belongs beside each GPU of a host, when some of its slots are approved already?

A discovery divides a NUMA node's CPUs and memory, and the NICs and drives beside its switches,
among the GPUs that it finds. With one card fewer or more it divides anew, and everybody would have
something else. So what was approved goes first: a slot keeps it as long as it is there and nobody
else's, and only a GPU without an approved slot takes what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

EXCLUSIVE: Final = "exclusive"
SHARED: Final = "shared"


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one family beside a GPU, and how it holds them."""

    mode: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """What a GPU has beside it. None: unknown. memory: bytes."""

    uuid: str
    numa: int | None
    cpus: frozenset[int] | None
    memory: int | None
    nics: Devices
    nvmes: Devices


@dataclass(frozen=True, slots=True)
class Room:
    """What a NUMA node has in all. None: unknown. memory: bytes."""

    cpus: frozenset[int] | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class Division:
    """shares: by UUID, of the GPUs that were seen; left_out: those for which nothing is left."""

    shares: Mapping[str, Share]
    left_out: frozenset[str]


def divided(
    approved: Iterable[Share], seen: Iterable[Share], rooms: Mapping[int, Room]
) -> Division:
    """Each seen GPU's share: as approved where that still holds, else as seen.

    ``approved``: of every slot that is approved or was, and is not given up: also of one whose card
    is not there now. A GPU that no slot has gets nothing that a slot has.
    """
    known = {share.uuid: share for share in approved}
    shares: dict[str, Share] = {}
    left_out: set[str] = set()
    for gpu in seen:
        room = Room(None, None) if gpu.numa is None else rooms.get(gpu.numa, Room(None, None))
        was = known.get(gpu.uuid)
        if was is not None:
            held = sum(one.memory or 0 for one in known.values() if one.numa == gpu.numa)
            shares[gpu.uuid] = _kept(was, gpu, room, held)
            continue
        shares[gpu.uuid] = _left(gpu, room, [s for s in known.values() if s.numa == gpu.numa])
        nothing = shares[gpu.uuid]
        if (gpu.cpus and not nothing.cpus) or (gpu.memory and not nothing.memory):
            left_out.add(gpu.uuid)
    return Division(shares, frozenset(left_out))


def _kept(was: Share, gpu: Share, room: Room, held: int) -> Share:
    """What was approved, as far as it is there."""
    stays = gpu.numa is not None and was.numa == gpu.numa
    cpus_hold = stays and was.cpus and room.cpus and was.cpus <= room.cpus
    memory_holds = stays and was.memory and room.memory and held <= room.memory
    return replace(
        gpu,
        cpus=was.cpus if cpus_hold else gpu.cpus,
        memory=was.memory if memory_holds else gpu.memory,
        nics=_devices(was.nics, gpu.nics),
        nvmes=_devices(was.nvmes, gpu.nvmes),
    )


def _devices(was: Devices, now: Devices) -> Devices:
    """As approved where a GPU now has at least that for itself."""
    more = now.mode == EXCLUSIVE and was.mode in (EXCLUSIVE, SHARED) and {*was.ids} <= {*now.ids}
    return was if more else now


def _left(gpu: Share, room: Room, slots: list[Share]) -> Share:
    """What a GPU would have, without what slots have."""
    taken = frozenset(cpu for share in slots for cpu in share.cpus or ())
    free = None if room.memory is None else room.memory - sum(share.memory or 0 for share in slots)
    return replace(
        gpu,
        cpus=None if gpu.cpus is None else gpu.cpus - taken,
        memory=gpu.memory if free is None or gpu.memory is None else max(0, min(gpu.memory, free)),
    )
