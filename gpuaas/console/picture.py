"""What does a host look like?  SVG drawn from its discovered wiring and its slots' states.

Colour, outline pattern, icon and word tell a state together, so that the drawing reads in
black and white too. What is unknown is hatched and says so.
"""

from __future__ import annotations

from collections import Counter

from gpuaas.console.layout import (
    BAR_H,
    COLUMN_PAD,
    GAP,
    PILL_H,
    TAB_GAP,
    TAB_H,
    TILE_H,
    TILE_W,
    Layout,
    PlacedBar,
    PlacedBox,
    PlacedColumn,
    PlacedPill,
    PlacedTile,
    lay_out,
)
from gpuaas.console.svg import clip, el, text
from gpuaas.ui.formats import short_gpu, size, speed
from gpuaas.ui.marks import role_of
from placement.domain.picture import Device, NodePicture, SlotMark

MARGIN = 2


def draw(picture: NodePicture, *, name: str) -> str:
    """The SVG of one host. ``name`` is the node's; every id in the drawing starts with it."""
    layout = lay_out(picture)
    base = f"pic-{name}"
    body = [
        el("title", _escaped(f"How {name} is wired and used"), id=f"{base}-t"),
        el("desc", _escaped(describe(picture)), id=f"{base}-d"),
        _defs(base),
        *(_column(column, base) for column in layout.columns),
        *_links(picture, layout),
        *(_tile(t, base) for c in layout.columns for b in c.boxes for t in b.tiles),
        *(_bar(bar) for bar in layout.bars),
    ]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    return el(
        "svg",
        *body,
        cls="picture",
        viewBox=f"{-MARGIN} {-MARGIN} {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{base}-t",
        aria_describedby=f"{base}-d",
    )


def describe(picture: NodePicture) -> str:
    """The drawing in words: how many of what, in which states."""
    if not picture.known:
        return "Nothing has been discovered on this node yet."
    tiles = picture.tiles()
    states = Counter(m.state.replace("_", " ") for m in picture.marks())
    slots = ", ".join(f"{count} {word}" for word, count in sorted(states.items()))
    parts = [
        f"{len(picture.columns)} NUMA nodes with {len(tiles)} GPUs.",
        f"Slots: {slots or 'none yet'}.",
    ]
    for mesh in picture.domains:
        named = f"NVLink domain {mesh.id}: GPUs {', '.join(map(str, mesh.gpus))}"
        told = [f"{a} to {b} by {count or 'unknown'}" for a, b, count in mesh.links]
        parts.append(f"{named}; linked: {', '.join(told)}." if told else f"{named}.")
    for mark in picture.marks():
        if mark.cut != "whole":
            held = ", ".join(f"{part.label} of {part.tenant}" for part in mark.parts) or "nothing"
            parts.append(f"Slot {mark.index} is cut for {mark.cut}: {held} is held.")
    unknown = sum(1 for t in tiles if t.uuid is None or t.memory_bytes is None)
    if unknown:
        parts.append(f"Of {unknown} GPUs something is unknown.")
    return " ".join(parts)


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _defs(base: str) -> str:
    """The hatches: one for the unknown, one for what is blocked."""

    def hatch(name: str, angle: int, step: int) -> str:
        return el(
            "pattern",
            el("path", d=f"M0 0V{step}", cls=f"hatch-{name}"),
            id=f"{base}-{name}",
            width=step,
            height=step,
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({angle})",
        )

    return el("defs", hatch("unknown", 45, 6), hatch("blocked", -45, 7))


def _column(placed: PlacedColumn, base: str) -> str:
    column = placed.column
    known = column.id is not None
    title = f"NUMA node {column.id}" if known else "NUMA node unknown"
    cpus = f"CPUs {column.cpuset}" if column.cpuset else "CPUs unknown"
    memory = size(column.memory_bytes) if column.memory_bytes else "memory unknown"
    most = int((placed.w - 2 * COLUMN_PAD) / 6.1)
    facts = f"{clip(cpus, max(12, most - len(memory) - 3))} · {memory}"
    parts = [
        el("rect", x=placed.x, y=0, width=placed.w, height=placed.h, rx=6, cls="numa"),
        None
        if known
        else el(
            "rect",
            x=placed.x,
            y=0,
            width=placed.w,
            height=36,
            rx=6,
            fill=f"url(#{base}-unknown)",
        ),
        text(title, placed.x + COLUMN_PAD, 18, "strong"),
        text(facts, placed.x + COLUMN_PAD, 33, "faint"),
        *(_box(box, base) for box in placed.boxes),
    ]
    return el("g", *(part for part in parts if part))


def _box(placed: PlacedBox, base: str) -> str:
    known = placed.box.id is not None
    label = f"PCIe switch {placed.box.id}" if known else "PCIe switch unknown"
    parts = [
        el("rect", x=placed.x, y=placed.y, width=placed.w, height=placed.h, rx=5, cls="switch")
    ]
    if not known:
        parts.append(
            el(
                "rect",
                x=placed.x,
                y=placed.y,
                width=placed.w,
                height=16,
                rx=5,
                fill=f"url(#{base}-unknown)",
            )
        )
    most = int((placed.w - 16) / 5.6)
    parts.append(text(clip(label, most), placed.x + 8, placed.y + 13, "faint small"))
    for pill in placed.pills:
        parts.extend(_leaders(placed, pill))
    parts.extend(_pill(pill, base) for pill in placed.pills)
    return el("g", *parts)


def _leaders(box: PlacedBox, pill: PlacedPill) -> list[str]:
    """Lines from a device to the tiles of its users, through the gaps between tiles."""
    lines = []
    lowest = max((t.y for t in box.tiles), default=0.0)
    bus = box.pills[0].y - GAP * 0.5
    for placed in box.tiles:
        index = placed.tile.slot.index if placed.tile.slot else placed.tile.index
        if index not in pill.device.users:
            continue
        start = f"M{placed.middle:g} {placed.bottom:g}"
        if placed.y == lowest:
            route = f"V{bus:g}"
        else:
            gap = placed.x + TILE_W + GAP / 2
            route = f"v{GAP / 2:g}H{gap:g}V{bus:g}"
        end = min(max(placed.middle, pill.x + 12), pill.x + pill.w - 12)
        lines.append(el("path", d=f"{start}{route}H{end:g}V{pill.y:g}", cls="leader"))
    return lines


def _device_label(device: Device) -> str:
    name = {"infiniband": "InfiniBand", "ethernet": "Ethernet", "efa": "EFA", "nvme": "NVMe"}
    label = name.get(device.label, "NIC of unknown kind")
    if device.kind == "nvme":
        return f"{label} {size(device.size_bytes)}" if device.size_bytes else label
    return f"{label} {speed(device.speed_mbps)}" if device.speed_mbps else label


def _pill(pill: PlacedPill, base: str) -> str:
    device = pill.device
    if device.users:
        users = ", ".join(map(str, device.users))
        label = f"{_device_label(device)} · shared by slots {users}"
    else:
        label = f"{_device_label(device)} · in no slot"
    most = int((pill.w - 16) / 5.7)
    return el(
        "g",
        el("title", _escaped(f"{device.id}: {label}")),
        el(
            "rect",
            x=pill.x,
            y=pill.y,
            width=pill.w,
            height=PILL_H,
            rx=PILL_H / 2,
            cls="device shared" if device.users else "device idle",
        ),
        text(clip(label, most), pill.x + pill.w / 2, pill.y + 16, "small", anchor="middle"),
    )


def _tile(placed: PlacedTile, base: str) -> str:
    tile, slot = placed.tile, placed.tile.slot
    state = slot.state if slot else "unknown"
    x, y = placed.x, placed.y
    parts = [
        el("title", _escaped(_tile_words(placed))),
        el("rect", x=x, y=y, width=TILE_W, height=TILE_H, rx=5, cls="tile"),
    ]
    if state in {"blocked", "cleanup_blocked"}:
        parts.append(_filled(placed, f"{base}-blocked"))
    if tile.uuid is None:
        parts.append(_filled(placed, f"{base}-unknown"))
    parts += [
        el("rect", x=x, y=y, width=TILE_W, height=TILE_H, rx=5, cls=f"slot slot-{state}"),
        text(f"GPU {tile.index}", x + 9, y + 19, "strong"),
        text(short_gpu(tile.uuid) if tile.uuid else "UUID unknown", x + 9, y + 35, "mono"),
        *_facts_or_strip(placed),
        *_state_line(slot, state, x, y),
    ]
    if slot and slot.initials:
        parts += [
            el("rect", x=x + TILE_W - 40, y=y + 7, width=32, height=17, rx=3, cls="who"),
            text(slot.initials, x + TILE_W - 24, y + 20, "who-text", anchor="middle"),
        ]
    parts += [_tab(placed, n, device) for n, device in enumerate(placed.tabs)]
    return el("g", *parts, cls=f"r-{role_of(state)}")


def _facts_or_strip(placed: PlacedTile) -> list[str]:
    """What the GPU is; of a cut slot a strip of its parts to scale instead."""
    tile, slot, x, y = placed.tile, placed.tile.slot, placed.x, placed.y
    if slot is not None and slot.cut != "whole":
        return _strip(slot, x + 8, y + 41)
    memory = size(tile.memory_bytes) if tile.memory_bytes else "memory unknown"
    return [
        text(clip(tile.model or "model unknown", 18), x + 9, y + 49, "faint small"),
        text(memory, x + 9, y + 62, "faint small"),
    ]


STRIP_W, STRIP_H = TILE_W - 16, 22
INITIALS_W = 13
"""A span narrower than this has its initials in the tooltip and the table only."""


def _strip(slot: SlotMark, x: float, y: float) -> list[str]:
    """The held spans of a cut slot; what is not drawn over is free."""
    free = f"{slot.free_milli}/1000 free, cut for {slot.cut}"
    parts = [
        el(
            "rect",
            el("title", free),
            x=x,
            y=y,
            width=STRIP_W,
            height=STRIP_H,
            rx=2,
            cls="strip",
        )
    ]
    for part in slot.parts:
        words = _escaped(f"{part.label}, {part.state.replace('_', ' ')}: {part.tenant}")
        drawn = [el("title", words)]
        for low, high in part.spans:
            left, width = x + low * STRIP_W / 1000, (high - low) * STRIP_W / 1000
            drawn.append(
                el(
                    "rect",
                    x=left + 0.75,
                    y=y + 1,
                    width=max(width - 1.5, 1),
                    height=STRIP_H - 2,
                    rx=1.5,
                    cls=f"part slot-{part.state}",
                )
            )
            if width >= INITIALS_W:
                drawn.append(
                    text(
                        part.initials,
                        left + width / 2,
                        y + 15,
                        "part-text" if width > 20 else "part-text tight",
                        anchor="middle",
                    )
                )
        parts.append(el("g", *drawn, cls=f"r-{role_of(part.state)}"))
    return parts


def _filled(placed: PlacedTile, pattern: str) -> str:
    return el(
        "rect",
        x=placed.x,
        y=placed.y,
        width=TILE_W,
        height=TILE_H,
        rx=5,
        fill=f"url(#{pattern})",
    )


def _state_line(slot: SlotMark | None, state: str, x: float, y: float) -> list[str]:
    word = "no slot" if slot is None else state.replace("_", " ")
    icon = f"#i-s-{role_of(state)}"
    return [
        el("use", href=icon, x=x + 8, y=y + 71, width=14, height=14, cls="icon"),
        text(word, x + 26, y + 82, "word"),
    ]


def _tile_words(placed: PlacedTile) -> str:
    """Everything about a tile in one line, as its tooltip."""
    tile, slot = placed.tile, placed.tile.slot
    words = [f"GPU {tile.index}", tile.uuid or "UUID unknown", tile.model or "model unknown"]
    if slot:
        words.append(f"slot {slot.index} {slot.state.replace('_', ' ')}")
        if slot.tenant:
            words.append(f"{slot.tenant}: {slot.allocation}")
        if slot.cut != "whole":
            words.append(f"cut for {slot.cut}, {slot.free_milli}/1000 free")
        if slot.reason:
            words.append(slot.reason)
        words.append(f"NIC {slot.nic_mode}, NVMe {slot.nvme_mode}")
    return " · ".join(words)


def _tab(placed: PlacedTile, n: int, device: Device) -> str:
    y = placed.y + TILE_H + TAB_GAP + n * (TAB_H + TAB_GAP)
    label = clip(_device_label(device), 19)
    return el(
        "g",
        el("title", _escaped(f"{device.id}: {_device_label(device)}, this slot's alone")),
        el("path", d=f"M{placed.middle:g} {y - TAB_GAP:g}v{TAB_GAP}", cls="leader"),
        el("rect", x=placed.x + 6, y=y, width=TILE_W - 12, height=TAB_H, rx=3, cls="device"),
        text(label, placed.middle, y + 13, "small", anchor="middle"),
    )


def _links(picture: NodePicture, layout: Layout) -> list[str]:
    """The single links of domains in which not every GPU sees every other."""
    tiles = layout.tiles()
    lines = []
    for mesh in picture.domains:
        for one, other, count in mesh.links:
            if one not in tiles or other not in tiles:
                continue
            a, b = tiles[one], tiles[other]
            ay, by = a.y + TILE_H / 2, b.y + TILE_H / 2
            lift = 0 if a.y != b.y else -TILE_H * 0.75
            lines.append(
                el(
                    "path",
                    el("title", _escaped(f"NVLink GPU {one} to GPU {other}: {count or 'unknown'}")),
                    d=f"M{a.middle:g} {ay:g}Q{(a.middle + b.middle) / 2:g} "
                    f"{(ay + by) / 2 + lift:g} {b.middle:g} {by:g}",
                    cls="nvlink" if count else "nvlink unknown",
                )
            )
    return lines


def _ranges(numbers: tuple[int, ...]) -> str:
    """Ascending numbers with runs of three and more shortened: 0-7, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def _bar(bar: PlacedBar) -> str:
    mesh = bar.mesh
    members = _ranges(mesh.gpus)
    how = "partly linked" if mesh.links else "all see all"
    if mesh.nvswitches and not mesh.links:
        how = f"{mesh.nvswitches} NVSwitches"
    if mesh.width:
        how += f", {mesh.width} link{'s' if mesh.width != 1 else ''} each"
    label = f"NVLink {mesh.id}: GPUs {members}, {how}"
    return el(
        "g",
        el("title", _escaped(label)),
        el("rect", x=bar.x, y=bar.y, width=bar.w, height=BAR_H, rx=4, cls="domain"),
        text(
            clip(label, int((bar.w - 16) / 6.6)),
            bar.x + bar.w / 2,
            bar.y + 17,
            "small strong",
            anchor="middle",
        ),
    )
