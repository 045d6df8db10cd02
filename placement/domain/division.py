"""What belongs beside each GPU of a host, when some of its slots are approved already?

A discovery divides a NUMA node's CPUs and memory, and the NICs and drives beside its switches,
among the GPUs that it finds. With one card fewer or more it divides anew, and everybody would have
something else. So what was approved goes first: a slot keeps it as long as it is there and nobody
else's, and only a GPU without an approved slot takes what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

EXCLUSIVE: Final = "exclusive"
SHARED: Final = "shared"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one family beside a GPU, and how it holds them."""

    mode: str
    ids: tuple[str, ...] = ()


_NOT_KEPT: Final = Devices("")


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
    approved: Iterable[Share],
    seen: Iterable[Share],
    rooms: Mapping[int, Room],
    in_use: Collection[str] = (),
) -> Division:
    """Each seen GPU's share: as approved where that still holds, else as seen.

    ``approved``: of every slot that is approved or was, and is not given up: also of one whose card
    is not there now. Where two cannot both keep what was approved of them, the earlier one does.
    ``in_use``: the GPUs of slots that somebody has: what they have is nobody else's, wherever their
    card is now. A GPU that no slot has gets nothing that a slot has; none gets what another got.
    """
    known = {share.uuid: share for share in approved}
    gpus = {share.uuid: share for share in seen}
    # A card that is not there yields to those that are; nobody's machine yields to anything.
    order = sorted(known, key=lambda uuid: (uuid not in in_use, uuid not in gpus))
    kept: dict[str, Share] = {}
    taken: dict[str, list[Share]] = {}
    for uuid in order:
        was, gpu = known[uuid], gpus.get(uuid)
        earlier = [share for some in taken.values() for share in some]
        kept[uuid] = was if gpu is None else _kept(was, gpu, _room(gpu, rooms), earlier)
        taken[uuid] = [was if uuid in in_use else kept[uuid]]
    shares: dict[str, Share] = {}
    for uuid in (one for one in order if one in gpus):
        left = _left(gpus[uuid], _room(gpus[uuid], rooms), _of_others(taken, uuid), gpus)
        more = _beyond(left, kept[uuid])
        shares[uuid] = _both(kept[uuid], more)
        taken[uuid].append(more)
    for uuid, was in known.items():
        if uuid not in in_use:
            taken[uuid].append(_beyond(was, kept[uuid]))
    for uuid in (one for one in gpus if one not in known):
        others = _of_others(taken, uuid)
        shares[uuid] = _left(gpus[uuid], _room(gpus[uuid], rooms), others, gpus)
        taken[uuid] = [shares[uuid]]
    return Division(
        {uuid: shares[uuid] for uuid in gpus},
        frozenset(uuid for uuid, gpu in gpus.items() if _nothing(gpu, shares[uuid])),
    )


def _room(gpu: Share, rooms: Mapping[int, Room]) -> Room:
    unknown = Room(None, None)
    return unknown if gpu.numa is None else rooms.get(gpu.numa, unknown)


def _of_others(taken: Mapping[str, list[Share]], uuid: str) -> list[Share]:
    return [share for other, some in taken.items() if other != uuid for share in some]


def _nothing(gpu: Share, share: Share) -> bool:
    """Whether others have all that would be beside the GPU."""
    return bool((gpu.cpus and not share.cpus) or (gpu.memory and not share.memory))


def _kept(was: Share, gpu: Share, room: Room, earlier: list[Share]) -> Share:
    """The parts of what was approved that are there and that nobody before it keeps."""
    stays = gpu.numa is not None and was.numa == gpu.numa
    cpus_hold = stays and was.cpus and room.cpus and was.cpus <= room.cpus - _cpus(earlier)
    free = None if room.memory is None else room.memory - _memory(earlier, gpu.numa)
    memory_holds = stays and was.memory and free is not None and was.memory <= free
    return replace(
        gpu,
        cpus=was.cpus if cpus_hold else None,
        memory=was.memory if memory_holds else None,
        nics=_kept_devices(was.nics, gpu.nics, [share.nics for share in earlier]),
        nvmes=_kept_devices(was.nvmes, gpu.nvmes, [share.nvmes for share in earlier]),
    )


def _kept_devices(was: Devices, now: Devices, earlier: list[Devices]) -> Devices:
    """As approved where a GPU now has at least that for itself, and nobody before it keeps it."""
    more = now.mode == EXCLUSIVE and was.mode in (EXCLUSIVE, SHARED) and {*was.ids} <= {*now.ids}
    return was if (was == now or more) and _without(was, earlier) == was else _NOT_KEPT


def _beyond(share: Share, kept: Share) -> Share:
    """The parts of a share of which nothing is kept."""
    return replace(
        share,
        cpus=None if kept.cpus else share.cpus,
        memory=None if kept.memory else share.memory,
        nics=share.nics if kept.nics == _NOT_KEPT else _NOT_KEPT,
        nvmes=share.nvmes if kept.nvmes == _NOT_KEPT else _NOT_KEPT,
    )


def _both(kept: Share, more: Share) -> Share:
    """What is kept, and what comes in the place of the rest."""
    return replace(
        kept,
        cpus=kept.cpus or more.cpus,
        memory=kept.memory or more.memory,
        nics=more.nics if kept.nics == _NOT_KEPT else kept.nics,
        nvmes=more.nvmes if kept.nvmes == _NOT_KEPT else kept.nvmes,
    )


def _left(gpu: Share, room: Room, others: list[Share], seen: Mapping[str, Share]) -> Share:
    """What a GPU would have, without what others have. CPUs and devices are the whole host's.

    Where others have all its CPUs, those that were dealt to another of its NUMA node come in their
    place, as long as nobody has any of them: that one keeps what was approved of it.
    """
    free = None if room.memory is None else room.memory - _memory(others, gpu.numa)
    held = _cpus(others)
    dealt = [one.cpus for one in seen.values() if one.cpus and one.numa == gpu.numa]
    instead = next((cpus for cpus in dealt if not cpus & held), frozenset[int]())
    return replace(
        gpu,
        cpus=(gpu.cpus - held or instead) if gpu.cpus else gpu.cpus,
        memory=gpu.memory if free is None or gpu.memory is None else max(0, min(gpu.memory, free)),
        nics=_without(gpu.nics, [share.nics for share in others]),
        nvmes=_without(gpu.nvmes, [share.nvmes for share in others]),
    )


def _cpus(shares: list[Share]) -> frozenset[int]:
    return frozenset(cpu for share in shares for cpu in share.cpus or ())


def _memory(shares: list[Share], numa: int | None) -> int:
    """Bytes of a NUMA node that these have."""
    return sum(share.memory or 0 for share in shares if share.numa == numa)


def _without(devices: Devices, others: list[Devices]) -> Devices:
    """The devices that are nobody else's alone."""
    taken = {one for other in others for one in other.ids if other.mode == EXCLUSIVE}
    if devices.mode != EXCLUSIVE or not taken.intersection(devices.ids):
        return devices
    ids = tuple(one for one in devices.ids if one not in taken)
    return Devices(EXCLUSIVE if ids else NONE, ids)
