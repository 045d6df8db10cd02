"""What does the whole fleet look like at a glance: as a map, as a list, as a sheet?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse

from gpuaas.cells import inert
from gpuaas.console.fleet_map import (
    CHOICES,
    CUT,
    FILTERS,
    NOWHERE,
    PLACES,
    POSTURE,
    Cell,
    Entry,
    Shade,
    Tiles,
    address,
    cells_of,
    gpu_words,
    known_key,
    legend_of,
    lump_cells,
    shades_of,
    tiles_of,
)
from gpuaas.console.fleet_racks import RackTiles, place_words, racks_of
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import clock, errors
from gpuaas.ui.marks import mark_of
from gpuaas.ui.sheet import sheet
from placement.selectors.fleet import fleet_lumps, fleet_nodes

ROOMY = 60
"""Above this many hosts the tiles are small."""
MOST_HOSTS = 640
"""Above this many hosts the map shows racks, and of one rack a page of its hosts."""
PAGE = 400
VIEWS = ("map", "list")
NAMES = {
    "posture": "Posture",
    "tenant": "Tenant",
    "health": "Health",
    "age": "Age of last report",
    "cut": "Sold",
}
PLACE_NAMES = {"zone": "Zone", "block": "Block", "rack": "Rack"}


@dataclass(frozen=True, slots=True)
class Chip:
    """A choice or a filter that is on, and where it leads."""

    label: str
    href: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What the address asks for, of what there is."""

    choice: str
    view: str
    asked: dict[str, str]
    params: dict[str, str]
    cells: list[Cell]
    shades: dict[str, dict[str, Shade]]

    @property
    def kept(self) -> list[Cell]:
        """The cells that every filter lets through."""
        return self.passing(self.cells)

    def passing(self, cells: list[Cell]) -> list[Cell]:
        """Those of these that every filter lets through."""
        return [cell for cell in cells if cell.passes(self.asked)]

    @property
    def in_one_rack(self) -> bool:
        """Whether the address names one rack."""
        return all(name in self.asked for name in PLACES)

    def detailed(self, hosts: Collection[str]) -> list[Cell]:
        """Every GPU of these hosts that the filters let through."""
        return self.passing(cells_of(fleet_nodes(hosts), clock.db_now()))

    def legend(self, choice: str) -> list[Entry]:
        """The legend of one choice."""
        return legend_of(choice, self.shades[choice], self.cells, self.asked, self.params)


class FleetPage(ConsolePage):
    """What map, list and sheet share: the colouring and the filters of the address."""

    def shown(self) -> Shown:
        """Reads the address and the fleet. Raises InvalidRequest for a state that is none."""
        given = self.request.GET
        choice, view = given.get("by", "") or POSTURE, given.get("view", "") or "map"
        _known("by", choice, CHOICES)
        _known("view", view, VIEWS)
        cells = lump_cells(fleet_lumps(), clock.db_now())
        shades = {name: shades_of(name, cells) for name in FILTERS}
        asked = {name: given[name] for name in (*FILTERS, *PLACES) if given.get(name)}
        for name, key in asked.items():
            if name in PLACES:
                _known(name, key, tuple(sorted({cell.keys[name][0] for cell in cells})))
            elif not known_key(name, key, shades[name]):
                _known(name, key, tuple(shades[name]))
        params = {
            "by": "" if choice == POSTURE else choice,
            "view": "" if view == "map" else view,
            **asked,
        }
        return Shown(choice, view, asked, params, cells, shades)


def _known(name: str, value: str, among: tuple[str, ...]) -> None:
    if value not in among:
        raise errors.InvalidRequest(
            f"There is no {name} {value[:40]!r}.",
            errors=(errors.FieldError(f"/{name}", "unknown", ", ".join(among[:30])),),
        )


class Fleet(FleetPage):
    """Every GPU as a tile in its place, or as a line of a table; one choice colours it."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The map or the list."""
        shown = self.shown()
        kept, params = shown.kept, shown.params
        choices = [
            Chip(NAMES[name].lower(), address({**params, "by": name}), name == shown.choice)
            for name in CHOICES
        ]
        views = [
            Chip(f"as a {name}", address({**params, "view": name}), name == shown.view)
            for name in VIEWS
        ]
        others = [
            Chip(
                f"{NAMES[name].lower()}: {shown.shades[name][key].word}",
                address({**params, name: ""}),
            )
            for name, key in shown.asked.items()
            if name not in (shown.choice, CUT, *PLACES)
        ]
        others += [
            Chip(
                f"{PLACE_NAMES[name].lower()}: {'not given' if key == NOWHERE else key}",
                address({**params, name: ""}),
            )
            for name, key in shown.asked.items()
            if name in PLACES
        ]
        body = self._map(shown, kept) if shown.view == "map" else self._list(shown, kept)
        return self.page(
            "console/fleet.html",
            view=shown.view,
            choice_name=NAMES[shown.choice],
            choices=choices,
            views=views,
            others=others,
            legend=shown.legend(shown.choice),
            cuts=shown.legend(CUT),
            total=len(shown.cells),
            gpus=sum(cell.count for cell in kept),
            of_gpus=sum(cell.count for cell in shown.cells),
            nodes=len({cell.node.name for cell in kept}),
            without=sum(not cell.count for cell in kept),
            filtered=bool(shown.asked),
            clear=address({name: params[name] for name in ("by", "view")}),
            here=address(params),
            **body,
        )

    @property
    def _start(self) -> int:
        text = self.request.GET.get("cursor", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0

    def _list(self, shown: Shown, kept: list[Cell]) -> dict[str, Any]:
        """A page of lines: which hosts have them is known from the lumps."""
        start, line, first = self._start, 0, 0
        hosts: list[str] = []
        for name, group in groupby(kept, key=lambda cell: cell.node.name):
            lines = sum(max(1, cell.count) for cell in group)
            if line + lines > start and line < start + PAGE:
                first = first if hosts else line
                hosts.append(name)
            line += lines
        cells = shown.detailed(hosts)[start - first : start - first + PAGE] if hosts else []
        more = start + PAGE if line > start + PAGE else 0
        rows = [_row(cell) for cell in cells]
        return {"rows": rows, "cursor": more, "first": start + 1, "last": start + len(rows)}

    def _map(self, shown: Shown, kept: list[Cell]) -> dict[str, Any]:
        """Zone, then rack, then host; or racks alone where hosts are too many."""
        names = list(dict.fromkeys(cell.node.name for cell in kept))
        shades = shown.shades[shown.choice]
        if len(names) > MOST_HOSTS and not shown.in_one_rack:
            tops: dict[str, list[RackTiles]] = {}
            for rack in racks_of(kept, shown.choice, shades, shown.params):
                tops.setdefault(rack.zone, []).append(rack)
            return {"tops": tops}
        page = names[self._start : self._start + MOST_HOSTS]
        more = self._start + MOST_HOSTS
        zones: dict[str, dict[str, list[Tiles]]] = {}
        for _, group in groupby(shown.detailed(page), key=lambda cell: cell.node.name):
            cells = list(group)
            node = cells[0].node
            racks = zones.setdefault(node.zone or "no zone given", {})
            tiles = tiles_of(node, cells, shown.choice, shades)
            racks.setdefault(place_words(node), []).append(tiles)
        return {
            "zones": zones,
            "dense": len(page) > ROOMY,
            "cursor": more if len(names) > more else 0,
        }


def _row(cell: Cell) -> dict[str, Any]:
    words = gpu_words(cell.gpu) if cell.gpu else {}
    return {
        "node": cell.node,
        "posture": mark_of(cell.node.posture),
        "gpu": cell.gpu,
        "health": mark_of(cell.gpu.health) if cell.gpu else None,
        "words": words,
    }


class FleetCsv(FleetPage):
    """The same GPUs for a spreadsheet."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """All lines of the filters."""
        shown = self.shown()
        hosts = {cell.node.name for cell in shown.kept}
        return sheet("fleet", _lines(shown.detailed(hosts)))


def _lines(cells: list[Cell]) -> Iterator[list[object]]:
    yield [
        *("node", "zone", "block", "rack", "gpu", "gpu_uuid"),
        *("posture", "state", "tenant", "health", "sold", "last_report"),
    ]
    for cell in cells:
        node, gpu = cell.node, cell.gpu
        words = gpu_words(gpu) if gpu else {}
        yield [
            node.name,
            inert(node.zone),
            inert(node.block),
            inert(node.rack),
            gpu.index if gpu else "",
            inert(gpu.uuid) if gpu else "",
            node.posture,
            words.get("state", ""),
            inert(words.get("tenant", "")),
            words.get("health", ""),
            words.get("cut", ""),
            node.reported_at.isoformat() if node.reported_at else "",
        ]
