"""How is one host wired, and what is on each part of it now?  As frozen facts for drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["exclusive", "shared", "none", "unknown"]

WHOLE_NODE = -1
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SlotFact:
    """One slot row as it stands now; ``draining`` is true for a slot's or a node's drain.

    ``residue``: traces of an earlier tenant were found on it.
    """

    index: int
    state: str
    gpu_uuid: str
    gpu_index: int
    nic: str | None = None
    nic_mode: Mode = "unknown"
    nvme: str | None = None
    nvme_mode: Mode = "unknown"
    draining: bool = False
    reason: str = ""
    residue: bool = False
    cut: str = "whole"


@dataclass(frozen=True, slots=True)
class ClaimFact:
    """One live claim; ``slot_index`` is -1 for the whole node."""

    slot_index: int
    state: str
    holder: str
    tenant: str
    allocation: str
    part: str = ""
    """What is held where that is a part of the slot, for people."""
    spans: tuple[tuple[int, int], ...] = ()
    """Where that part is, in thousandths of the GPU."""


@dataclass(frozen=True, slots=True)
class PartMark:
    """What is shown of one part of a GPU."""

    label: str
    spans: tuple[tuple[int, int], ...]
    state: str
    tenant: str
    initials: str
    allocation: str


@dataclass(frozen=True, slots=True)
class SlotMark:
    """What is shown on a GPU: the slot's one displayed state, and who has it.

    ``state`` is one word of: free, reserved, in_use, releasing, cleanup_blocked, draining,
    blocked, candidate, verified, retired, unknown.
    """

    index: int
    state: str
    tenant: str
    initials: str
    allocation: str
    reason: str
    nic: str | None
    nic_mode: Mode
    nvme: str | None
    nvme_mode: Mode
    cut: str = "whole"
    parts: tuple[PartMark, ...] = ()

    @property
    def free_milli(self) -> int:
        """Of a cut slot, what is in no part."""
        return 1000 - sum(high - low for part in self.parts for low, high in part.spans)


@dataclass(frozen=True, slots=True)
class GpuTile:
    """One GPU; every unknown is None."""

    index: int
    uuid: str | None
    pci: str | None
    model: str | None
    memory_bytes: int | None
    nvlink_domain: str | None
    slot: SlotMark | None


@dataclass(frozen=True, slots=True)
class Device:
    """A NIC or an NVMe, and the slots that use it (none, one, or several)."""

    id: str
    kind: Literal["nic", "nvme"]
    label: str
    speed_mbps: int | None
    size_bytes: int | None
    users: tuple[int, ...]
    shared: bool


@dataclass(frozen=True, slots=True)
class SwitchBox:
    """What hangs under one PCIe switch. ``id`` is None for what hangs under none known."""

    id: str | None
    parent: str | None
    gpus: tuple[GpuTile, ...]
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class NumaColumn:
    """One NUMA node. ``id`` is None for devices whose NUMA node is unknown."""

    id: int | None
    cpuset: str | None
    memory_bytes: int | None
    switches: tuple[SwitchBox, ...]


@dataclass(frozen=True, slots=True)
class Mesh:
    """One NVLink domain: its GPUs by index, and its links when not all see all.

    ``links`` holds (gpu, gpu, count or None) and is empty for a switched domain, and for a full
    one of even links. ``width``: how many any two have then; None where that is not told.
    """

    id: str
    gpus: tuple[int, ...]
    links: tuple[tuple[int, int, int | None], ...]
    nvswitches: int
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something unknown, odd or unused about the host."""

    code: str
    detail: str
    device: str | None


@dataclass(frozen=True, slots=True)
class NodePicture:
    """A host as it is drawn: columns, domains, notes. ``known`` is False before discovery."""

    known: bool
    hostname: str
    source: str
    columns: tuple[NumaColumn, ...]
    domains: tuple[Mesh, ...]
    notes: tuple[Note, ...]

    def tiles(self) -> list[GpuTile]:
        """Every GPU, by index."""
        tiles = [g for column in self.columns for box in column.switches for g in box.gpus]
        return sorted(tiles, key=lambda tile: tile.index)

    def marks(self) -> list[SlotMark]:
        """Every slot, by index."""
        marks = [tile.slot for tile in self.tiles() if tile.slot is not None]
        return sorted(marks, key=lambda mark: mark.index)


def initials_of(name: str) -> str:
    """Up to three letters that stand for a tenant on a small tile."""
    words = [word for word in name.replace("-", " ").replace("_", " ").split() if word]
    if len(words) == 1:
        return words[0][:2].upper()
    return "".join(word[0] for word in words[:3]).upper()


def shown_state(slot: SlotFact, claim: ClaimFact | None, *, parted: bool = False) -> str:
    """The one word for a slot: what holds it comes before what it is ready for.

    ``parted``: parts of it are held; traces and a drain are said before that, for what is free.
    """
    if claim is not None:
        return {"active": "in_use"}.get(claim.state, claim.state)
    if slot.state != "approved":
        return slot.state
    if slot.residue:
        return "cleanup_blocked"
    if slot.draining:
        return "draining"
    return "in_use" if parted else "free"


def picture_from(
    topology: Mapping[str, Any], slots: Iterable[SlotFact], claims: Iterable[ClaimFact]
) -> NodePicture:
    """The picture of one host from its stored topology report, slot rows and live claims.

    ``topology`` is the JSON of a TopologyReport, or empty when nothing was discovered yet.
    """
    marks = _marks(tuple(slots), tuple(claims))
    gpus = [_tile(raw, marks) for raw in topology.get("gpus", ())]
    devices = _devices(topology, marks)
    source = topology.get("source") or {}
    return NodePicture(
        known=bool(topology.get("gpus")),
        hostname=str(topology.get("hostname") or ""),
        source=str(source.get("format") or ""),
        columns=_columns(topology, gpus, devices),
        domains=_domains(topology, gpus),
        notes=tuple(
            Note(str(raw.get("code", "")), str(raw.get("detail", "")), raw.get("device"))
            for raw in topology.get("findings", ())
        ),
    )


def _marks(slots: tuple[SlotFact, ...], claims: tuple[ClaimFact, ...]) -> dict[int, SlotMark]:
    """The mark of each GPU index. A claim of the whole node marks every slot."""
    whole = next((c for c in claims if c.slot_index == WHOLE_NODE), None)
    by_slot = {c.slot_index: c for c in claims if not c.part}
    marks: dict[int, SlotMark] = {}
    for slot in slots:
        claim = by_slot.get(slot.index, whole)
        parts = tuple(_part(c) for c in claims if c.part and c.slot_index == slot.index)
        marks[slot.gpu_index] = SlotMark(
            index=slot.index,
            state=shown_state(slot, claim, parted=bool(parts)),
            tenant=claim.tenant if claim else "",
            initials=initials_of(claim.tenant) if claim else "",
            allocation=claim.allocation if claim else "",
            reason=slot.reason,
            nic=slot.nic,
            nic_mode=slot.nic_mode,
            nvme=slot.nvme,
            nvme_mode=slot.nvme_mode,
            cut=slot.cut,
            parts=tuple(sorted(parts, key=lambda part: part.spans)),
        )
    return marks


def _part(claim: ClaimFact) -> PartMark:
    return PartMark(
        label=claim.part,
        spans=claim.spans,
        state={"active": "in_use"}.get(claim.state, claim.state),
        tenant=claim.tenant,
        initials=initials_of(claim.tenant),
        allocation=claim.allocation,
    )


def _tile(
    raw: Mapping[str, Any], marks: Mapping[int, SlotMark]
) -> tuple[Mapping[str, Any], GpuTile]:
    index = int(raw["index"])
    return raw, GpuTile(
        index=index,
        uuid=raw.get("uuid"),
        pci=raw.get("pci"),
        model=raw.get("model"),
        memory_bytes=raw.get("memory_bytes"),
        nvlink_domain=raw.get("nvlink_domain"),
        slot=marks.get(index),
    )


def _users(topology: Mapping[str, Any], marks: Mapping[int, SlotMark]) -> dict[str, list[int]]:
    """Which slots use which device; before slots are stored, the report's own candidates say."""
    users: dict[str, list[int]] = {}
    for raw in topology.get("slots", ()):
        extra = (*raw.get("extra_nics", ()), *raw.get("extra_nvmes", ()))
        for device in (raw.get("nic"), raw.get("nvme"), *extra):
            if device:
                users.setdefault(device, []).append(int(raw["index"]))
    for mark in marks.values():
        for device in (mark.nic, mark.nvme):
            if device and mark.index not in users.setdefault(device, []):
                users[device].append(mark.index)
    return users


def _devices(
    topology: Mapping[str, Any], marks: Mapping[int, SlotMark]
) -> list[tuple[Mapping[str, Any], Device]]:
    users = _users(topology, marks)
    shared = {
        device
        for raw in topology.get("slots", ())
        for device, mode in ((raw.get("nic"), "nic_mode"), (raw.get("nvme"), "nvme_mode"))
        if device and raw.get(mode) == "shared"
    }
    found: list[tuple[Mapping[str, Any], Device]] = []
    for raw in topology.get("nics", ()):
        found.append((raw, _device(raw, "nic", str(raw.get("kind") or UNKNOWN), users, shared)))
    for raw in topology.get("nvmes", ()):
        found.append((raw, _device(raw, "nvme", "nvme", users, shared)))
    return found


def _device(
    raw: Mapping[str, Any],
    kind: Literal["nic", "nvme"],
    label: str,
    users: Mapping[str, list[int]],
    shared: set[str],
) -> Device:
    using = tuple(sorted(users.get(raw["id"], ())))
    return Device(
        id=str(raw["id"]),
        kind=kind,
        label=label,
        speed_mbps=raw.get("speed_mbps"),
        size_bytes=raw.get("size_bytes"),
        users=using,
        shared=raw["id"] in shared or len(using) > 1,
    )


def _columns(
    topology: Mapping[str, Any],
    gpus: list[tuple[Mapping[str, Any], GpuTile]],
    devices: list[tuple[Mapping[str, Any], Device]],
) -> tuple[NumaColumn, ...]:
    known: dict[int | None, Mapping[str, Any]] = {n["id"]: n for n in topology.get("numa", ())}
    homeless = {raw.get("numa") for raw, _ in (*gpus, *devices)} - set(known)
    order: list[int | None] = [*known, *sorted(homeless, key=lambda n: (n is None, n or 0))]
    parents = {s["id"]: s.get("parent") for s in topology.get("switches", ())}
    columns = []
    for numa in order:
        raw = known.get(numa, {})
        tiles = [(g.get("switch"), tile) for g, tile in gpus if g.get("numa") == numa]
        tabs = [(d.get("switch"), tab) for d, tab in devices if d.get("numa") == numa]
        columns.append(
            NumaColumn(
                id=numa,
                cpuset=raw.get("cpuset"),
                memory_bytes=raw.get("memory_bytes"),
                switches=_boxes(tiles, tabs, parents),
            )
        )
    return tuple(columns)


def _boxes(
    tiles: list[tuple[str | None, GpuTile]],
    tabs: list[tuple[str | None, Device]],
    parents: Mapping[str, str | None],
) -> tuple[SwitchBox, ...]:
    """One box for each switch that holds something, in the order of its first GPU."""
    first: dict[str | None, int] = {}
    for switch, tile in tiles:
        first[switch] = min(tile.index, first.get(switch, tile.index))
    for switch, _ in tabs:
        first.setdefault(switch, 10_000)
    return tuple(
        SwitchBox(
            id=switch,
            parent=parents.get(switch) if switch else None,
            gpus=tuple(sorted((t for s, t in tiles if s == switch), key=lambda t: t.index)),
            devices=tuple(tab for s, tab in tabs if s == switch),
        )
        for switch in sorted(first, key=lambda s: (first[s], s or ""))
    )


def _domains(
    topology: Mapping[str, Any], gpus: list[tuple[Mapping[str, Any], GpuTile]]
) -> tuple[Mesh, ...]:
    members: dict[str, list[int]] = {}
    index_of: dict[str, int] = {}
    for raw, tile in gpus:
        if tile.nvlink_domain:
            members.setdefault(tile.nvlink_domain, []).append(tile.index)
        if raw.get("pci"):
            index_of[str(raw["pci"])] = tile.index
    links: dict[tuple[int, int], int | None] = {}
    switched: dict[int, int | None] = {}
    for raw in topology.get("nvlinks", ()):
        one, other = index_of.get(raw["from"]), index_of.get(raw["to"])
        if one is not None and other is not None and one != other:
            links[(min(one, other), max(one, other))] = raw.get("count")
        elif (one is None) != (other is None):
            end = other if one is None else one
            assert end is not None
            before, count = switched.get(end, 0), raw.get("count")
            switched[end] = None if before is None or count is None else before + count
    switches = len(topology.get("nvswitches", ()))
    return tuple(
        Mesh(
            id=domain,
            gpus=tuple(sorted(indexes)),
            links=_partial(indexes, links),
            nvswitches=switches,
            width=_width(indexes, links, switched),
        )
        for domain, indexes in sorted(members.items(), key=lambda item: min(item[1]))
    )


def _inside(
    indexes: list[int], links: Mapping[tuple[int, int], int | None]
) -> dict[tuple[int, int], int | None]:
    inside = set(indexes)
    return {pair: n for pair, n in links.items() if pair[0] in inside and pair[1] in inside}


def _partial(
    indexes: list[int], links: Mapping[tuple[int, int], int | None]
) -> tuple[tuple[int, int, int | None], ...]:
    """The links inside a domain, unless there are none (switched) or a full mesh of even ones."""
    mine = _inside(indexes, links)
    full = len(mine) == len(indexes) * (len(indexes) - 1) // 2
    if not mine or (full and len(set(mine.values())) == 1):
        return ()
    return tuple((a, b, count) for (a, b), count in sorted(mine.items()))


def _width(
    indexes: list[int],
    links: Mapping[tuple[int, int], int | None],
    switched: Mapping[int, int | None],
) -> int | None:
    """How many links any two GPUs of a domain have, where it is the same for all and told."""
    mine = _inside(indexes, links)
    if mine:
        return next(iter(mine.values())) if not _partial(indexes, links) else None
    counts = {switched.get(index) for index in indexes}
    return counts.pop() if len(counts) == 1 else None
