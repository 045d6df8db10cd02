"""Where does each part of a host stand in its drawing?  Numbers only, no markup."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from placement.domain.picture import Device, GpuTile, Mesh, NodePicture, NumaColumn, SwitchBox

TILE_W, TILE_H = 130, 92
TAB_H, TAB_GAP = 19, 3
PILL_H = 24
GAP = 12
BOX_HEAD, BOX_PAD = 20, 10
COLUMN_HEAD, COLUMN_PAD = 44, 12
COLUMN_GAP = 16
BAR_H, BAR_GAP = 26, 8
WIDEST = 1040


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A GPU with the devices that are its alone, as tabs beneath it."""

    tile: GpuTile
    tabs: tuple[Device, ...]
    x: float
    y: float

    @property
    def bottom(self) -> float:
        """Where the tile and its tabs end."""
        return self.y + TILE_H + len(self.tabs) * (TAB_H + TAB_GAP)

    @property
    def middle(self) -> float:
        """The tile's centre, across."""
        return self.x + TILE_W / 2


@dataclass(frozen=True, slots=True)
class PlacedPill:
    """A device drawn once: shared, or used by no slot. Leaders run from ``bus`` to its users."""

    device: Device
    x: float
    y: float
    w: float


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A switch with what hangs under it."""

    box: SwitchBox
    x: float
    y: float
    w: float
    h: float
    tiles: tuple[PlacedTile, ...]
    pills: tuple[PlacedPill, ...]


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A NUMA node."""

    column: NumaColumn
    x: float
    w: float
    h: float
    boxes: tuple[PlacedBox, ...]


@dataclass(frozen=True, slots=True)
class PlacedBar:
    """An NVLink domain, from its first member's column to its last."""

    mesh: Mesh
    x: float
    y: float
    w: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole drawing; ``width`` and ``height`` are in its own units."""

    width: float
    height: float
    columns: tuple[PlacedColumn, ...]
    bars: tuple[PlacedBar, ...]

    def tiles(self) -> dict[int, PlacedTile]:
        """Every tile by GPU index."""
        return {t.tile.index: t for c in self.columns for b in c.boxes for t in b.tiles}


def lay_out(picture: NodePicture) -> Layout:
    """Columns side by side, boxes flowing inside them, one bar per NVLink domain below."""
    own = _own_tabs(picture)
    count = max(1, len(picture.columns))
    room = (WIDEST - (count - 1) * COLUMN_GAP) / count - 2 * COLUMN_PAD
    room = max(room, TILE_W + 2 * BOX_PAD)
    columns: list[PlacedColumn] = []
    x = 0.0
    for column in picture.columns:
        placed = _column(column, x, room, own)
        columns.append(placed)
        x += placed.w + COLUMN_GAP
    tallest = max((c.h for c in columns), default=0.0)
    columns = [PlacedColumn(c.column, c.x, c.w, tallest, c.boxes) for c in columns]
    bars = _bars(picture, columns, tallest + BAR_GAP)
    height = max((bar.y + BAR_H for bar in bars), default=tallest)
    return Layout(width=max(x - COLUMN_GAP, 1.0), height=height, columns=tuple(columns), bars=bars)


def _own_tabs(picture: NodePicture) -> dict[int, list[Device]]:
    """The devices that exactly one slot uses, by that slot's index."""
    own: dict[int, list[Device]] = {}
    drawn = {mark.index for mark in picture.marks()} | {t.index for t in picture.tiles()}
    for column in picture.columns:
        for box in column.switches:
            for device in box.devices:
                if _is_tab(device) and device.users[0] in drawn:
                    own.setdefault(device.users[0], []).append(device)
    return own


def _is_tab(device: Device) -> bool:
    return len(device.users) == 1 and not device.shared


def _column(
    column: NumaColumn, x: float, room: float, own: dict[int, list[Device]]
) -> PlacedColumn:
    left = x + COLUMN_PAD
    at_x, at_y, row_h, widest = left, float(COLUMN_HEAD), 0.0, 0.0
    boxes: list[PlacedBox] = []
    sized = []
    for box in column.switches:
        pills = [d for d in box.devices if not _is_tab(d)]
        if box.gpus or pills:
            sized.append((box, pills, *_box_size(box, pills, own, room)))
    a_row = _a_row([w for _, _, w, _ in sized], room)
    for n, (box, pills, w, h) in enumerate(sized):
        if at_x > left and (at_x + w > left + room or n % a_row == 0):
            at_x, at_y, row_h = left, at_y + row_h + GAP, 0.0
        boxes.append(_box(box, pills, own, at_x, at_y, w, h))
        row_h = max(row_h, h)
        at_x += w + GAP
        widest = max(widest, at_x - GAP - left)
    widest = max(widest, TILE_W * 1.6)
    return PlacedColumn(
        column, x, widest + 2 * COLUMN_PAD, at_y + max(row_h, TAB_H) + COLUMN_PAD, tuple(boxes)
    )


def _a_row(widths: list[float], room: float) -> int:
    """How many boxes stand in a row, so that rows of equal boxes are equally long."""
    if not widths:
        return 1
    fit = max(1, int((room + GAP) // (max(widths) + GAP)))
    return ceil(len(widths) / ceil(len(widths) / fit))


def _across(box: SwitchBox, room: float) -> int:
    """How many tiles stand beside each other in a box."""
    fit = int((room - 2 * BOX_PAD + GAP) // (TILE_W + GAP))
    return max(1, min(len(box.gpus), fit, 4))


def _tabs_of(tile: GpuTile, own: dict[int, list[Device]]) -> tuple[Device, ...]:
    index = tile.slot.index if tile.slot else tile.index
    return tuple(own.get(index, ()))


def _row_heights(box: SwitchBox, own: dict[int, list[Device]], across: int) -> list[float]:
    rows = [box.gpus[i : i + across] for i in range(0, len(box.gpus), across)]
    return [
        TILE_H + max(len(_tabs_of(tile, own)) for tile in row) * (TAB_H + TAB_GAP) for row in rows
    ]


def _box_size(
    box: SwitchBox, pills: list[Device], own: dict[int, list[Device]], room: float
) -> tuple[float, float]:
    across = _across(box, room)
    heights = _row_heights(box, own, across)
    inner = max(across * (TILE_W + GAP) - GAP, TILE_W * 1.6 if pills else TILE_W)
    h = BOX_HEAD + sum(heights) + max(0, len(heights) - 1) * GAP + BOX_PAD
    if pills:
        h += (GAP * 1.5 if box.gpus else 0) + len(pills) * (PILL_H + TAB_GAP) - TAB_GAP
    return inner + 2 * BOX_PAD, h


def _box(
    box: SwitchBox,
    pills: list[Device],
    own: dict[int, list[Device]],
    x: float,
    y: float,
    w: float,
    h: float,
) -> PlacedBox:
    across = _across(box, w)
    heights = _row_heights(box, own, across)
    tiles: list[PlacedTile] = []
    top = y + BOX_HEAD
    for row in range(ceil(len(box.gpus) / across) if box.gpus else 0):
        for column, tile in enumerate(box.gpus[row * across : (row + 1) * across]):
            tiles.append(
                PlacedTile(tile, _tabs_of(tile, own), x + BOX_PAD + column * (TILE_W + GAP), top)
            )
        top += heights[row] + GAP
    if box.gpus:
        top += GAP * 0.5
    placed = tuple(
        PlacedPill(pill, x + BOX_PAD, top + n * (PILL_H + TAB_GAP), w - 2 * BOX_PAD)
        for n, pill in enumerate(pills)
    )
    return PlacedBox(box, x, y, w, h, tuple(tiles), placed)


def _bars(picture: NodePicture, columns: list[PlacedColumn], top: float) -> tuple[PlacedBar, ...]:
    """Bars that would overlap are put below each other."""
    rows: list[float] = []
    bars: list[PlacedBar] = []
    for mesh in picture.domains:
        members = set(mesh.gpus)
        inside = [
            c for c in columns if any(t.tile.index in members for b in c.boxes for t in b.tiles)
        ]
        if not inside:
            continue
        left, right = inside[0].x, inside[-1].x + inside[-1].w
        row = next((n for n, end in enumerate(rows) if end <= left), len(rows))
        if row == len(rows):
            rows.append(0.0)
        rows[row] = right
        bars.append(PlacedBar(mesh, left, top + row * (BAR_H + BAR_GAP), right - left))
    return tuple(bars)
