"""How is each GPU of the fleet coloured, and what does its legend say?  Values in, marks out.

A mark is never a colour alone: every state of a choice has its own sign on the tile, and its own
pair of colour and outline; tile and legend carry the same three, and the tile's title the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.svg import el
from gpuaas.ui.marks import ROLES
from placement.domain.capacity import POSTURES
from placement.domain.health import CLASSES
from placement.domain.parts import CUTS, WHOLE
from placement.domain.picture import initials_of
from placement.selectors.fleet import HOST_DEGRADED, UNKNOWN, FleetGpu, FleetNode, Lump

POSTURE, TENANT, HEALTH, AGE, CUT = "posture", "tenant", "health", "age", "cut"
CHOICES: Final = (POSTURE, TENANT, HEALTH, AGE)
FILTERS: Final = (*CHOICES, CUT)
PLACES: Final = ("zone", "block", "rack")
NOWHERE: Final = "~none"
"""The key of a place that was not given."""
NOBODY, PLATFORM, SEVERAL = "~none", "~platform", "~several"
"""Keys that no tenant's slug can be."""
AGES: Final = (("1m", 60), ("5m", 300), ("1h", 3600))
"""The last report is at most so many seconds old; the first is where a host counts as silent."""
OLDER, NEVER = "older", "never"
HEALTHS: Final = (*CLASSES, HOST_DEGRADED, UNKNOWN)
OUTLINES: Final = 5

_TENANT_ROLES: Final = tuple(role for role in ROLES if role != "ended")


@dataclass(frozen=True, slots=True)
class Shade:
    """How one state of a choice is shown: a sign, a colour's role, an outline, and words."""

    key: str
    word: str
    sign: str
    role: str
    outline: int = 0

    @property
    def cls(self) -> str:
        """The classes of what is drawn in it."""
        return f"{self.role} o{self.outline}"


_FIXED: Final[Mapping[str, tuple[Shade, ...]]] = {
    POSTURE: (
        Shade("fully_available", "fully available", "A", "ok"),
        Shade("partially_allocated", "partially allocated", "P", "info", 2),
        Shade("fully_allocated", "fully allocated", "F", "info", 1),
        Shade("exclusive_baremetal", "exclusive baremetal", "B", "info", 4),
        Shade("draining", "draining", "D", "warning", 3),
        Shade("cleanup_blocked", "cleanup blocked", "C", "blocked", 1),
        Shade("unavailable", "unavailable", "U", "blocked", 2),
    ),
    HEALTH: (
        Shade("healthy", "healthy", "H", "ok"),
        Shade("degraded", "degraded", "D", "warning", 2),
        Shade("unhealthy", "unhealthy", "U", "blocked", 1),
        Shade(HOST_DEGRADED, "healthy on a degraded host", "N", "warning", 3),
        Shade(UNKNOWN, "unknown", "?", "ended", 2),
    ),
    AGE: (
        Shade("1m", "up to a minute", "1m", "ok"),
        Shade("5m", "up to 5 minutes", "5m", "info", 2),
        Shade("1h", "up to an hour", "1h", "warning", 3),
        Shade(OLDER, "more than an hour", ">h", "blocked", 1),
        Shade(NEVER, "never reported", "-", "ended", 2),
    ),
    CUT: (
        Shade("whole", "whole", "", "ended"),
        Shade("mig", "in MIG parts", "", "ended"),
        Shade("share", "in shares", "", "ended"),
    ),
}
_KEYS: Final[Mapping[str, Sequence[str]]] = {
    POSTURE: POSTURES,
    HEALTH: HEALTHS,
    AGE: (*(key for key, _ in AGES), OLDER, NEVER),
    CUT: CUTS,
}


_NEW: Final = Shade("", "just come", "*", "ended", 4)


@dataclass(frozen=True, slots=True)
class Cell:
    """GPUs of a host that are the same of each choice, and who has them.

    One GPU, where it is given; or ``count`` of them. A host without known GPUs has a cell of 0.
    """

    node: FleetNode
    gpu: FleetGpu | None
    keys: Mapping[str, tuple[str, ...]]
    tenants: tuple[tuple[str, str], ...] = ()
    count: int = 1

    def passes(self, asked: Mapping[str, str], *, but: str = "") -> bool:
        """Whether every filter but one lets it through."""
        return all(want in self.keys[name] for name, want in asked.items() if name != but)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend: the state, how many GPUs, and the address that filters by it."""

    shade: Shade
    count: int
    href: str
    current: bool


@dataclass(frozen=True, slots=True)
class Tiles:
    """One host on the map."""

    name: str
    words: str
    drawn: SafeString


def age_of(at: datetime | None, now: datetime) -> str:
    """In which span the last report is; ``never`` without one."""
    if at is None:
        return NEVER
    old_s = (now - at).total_seconds()
    return next((key for key, most_s in AGES if old_s <= most_s), OLDER)


def tenants_on(gpu: FleetGpu | Lump) -> tuple[str, ...]:
    """The keys of who is on a GPU: what it is shown as first, then each who has a part of it."""
    slugs = tuple(slug for slug, _ in gpu.tenants)
    held = (*slugs, PLATFORM) if gpu.platform else slugs
    return (SEVERAL, *held) if len(held) > 1 else held or (NOBODY,)


def cells_of(nodes: Iterable[FleetNode], now: datetime) -> list[Cell]:
    """Every GPU as a cell, in the order of the hosts."""
    return [cell for node in nodes for cell in _cells(node, node.gpus, now)]


def lump_cells(nodes: Iterable[tuple[FleetNode, Iterable[Lump]]], now: datetime) -> list[Cell]:
    """The GPUs of each host that are alike as a cell, in the order of the hosts."""
    return [cell for node, lumps in nodes for cell in _cells(node, lumps, now)]


def _cells(node: FleetNode, gpus: Iterable[FleetGpu | Lump], now: datetime) -> list[Cell]:
    of_node = {
        POSTURE: (node.posture,),
        AGE: (age_of(node.reported_at, now),),
        "zone": (node.zone or NOWHERE,),
        "block": (node.block or NOWHERE,),
        "rack": (node.rack or NOWHERE,),
    }
    found = []
    for gpu in gpus:
        keys = {TENANT: tenants_on(gpu), HEALTH: (gpu.health,), CUT: (gpu.cut,)} | of_node
        if isinstance(gpu, Lump):
            found.append(Cell(node, None, keys, gpu.tenants, gpu.count))
        else:
            found.append(Cell(node, gpu, keys, gpu.tenants))
    nothing: dict[str, tuple[str, ...]] = {TENANT: (), HEALTH: (), CUT: ()}
    return found or [Cell(node, None, of_node | nothing, count=0)]


def shades_of(choice: str, cells: Iterable[Cell]) -> dict[str, Shade]:
    """The shades of a choice by key. Tenants come with the most GPUs first, then the rest."""
    if choice != TENANT:
        return {shade.key: shade for shade in _FIXED[choice]}
    names: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for cell in cells:
        names.update(cell.tenants)
        for slug, _ in cell.tenants:
            counted[slug] += cell.count
    taken: set[str] = set()
    found = {}
    for n, slug in enumerate(sorted(names, key=lambda one: (-counted[one], one))):
        sign = _sign(names[slug], taken)
        role = _TENANT_ROLES[n % len(_TENANT_ROLES)]
        outline = n // len(_TENANT_ROLES) % OUTLINES
        found[slug] = Shade(slug, names[slug], sign, role, outline)
    found[SEVERAL] = Shade(SEVERAL, "several", "++", "ended", 4)
    found[PLATFORM] = Shade(PLATFORM, "held by the platform", "!", "ended", 3)
    found[NOBODY] = Shade(NOBODY, "nobody", "·", "ended")
    return found


def _sign(name: str, taken: set[str]) -> str:
    """Letters for a tenant that no other has: initials, or the first with a number."""
    sign, n = initials_of(name)[:2] or "?", 1
    while sign in taken:
        n += 1
        sign = f"{name[:1].upper()}{n}"
    taken.add(sign)
    return sign


def known_key(choice: str, key: str, shades: Mapping[str, Shade]) -> bool:
    """Whether a choice has such a state. Of a tenant that holds nothing there is no cell."""
    return key in shades if choice == TENANT else key in _KEYS[choice]


def legend_of(
    choice: str,
    shades: Mapping[str, Shade],
    cells: Iterable[Cell],
    asked: Mapping[str, str],
    params: Mapping[str, str],
) -> list[Entry]:
    """The states of a choice with the GPUs that the other filters let through.

    A GPU that several hold counts for each, and once as held by several. The entry of the
    filter that is on leads to the page without it.
    """
    counted: Counter[str] = Counter()
    for cell in cells:
        if cell.count and cell.passes(asked, but=choice):
            for key in cell.keys[choice]:
                counted[key] += cell.count
    on = asked.get(choice, "")
    return [
        Entry(
            shade,
            counted[key],
            address({**params, choice: "" if key == on else key}),
            key == on,
        )
        for key, shade in shades.items()
    ]


def address(params: Mapping[str, str]) -> str:
    """The query of an address; what is empty is left out."""
    return f"?{urlencode({name: value for name, value in params.items() if value})}"


def gpu_words(gpu: FleetGpu) -> dict[str, str]:
    """A GPU's facts in words, as title, table and sheet tell them."""
    held = [name for _, name in gpu.tenants] + (["the platform"] if gpu.platform else [])
    health = _FIXED[HEALTH][HEALTHS.index(gpu.health)].word
    cut = _FIXED[CUT][CUTS.index(gpu.cut)].word
    if gpu.cut != WHOLE:
        cut = f"{cut}, {gpu.parts} held"
    return {
        "state": gpu.state.replace("_", " "),
        "tenant": ", ".join(held) or "nobody",
        "health": health,
        "cut": cut,
    }


def tiles_of(
    node: FleetNode, cells: Sequence[Cell], choice: str, shades: Mapping[str, Shade]
) -> Tiles:
    """One host's tiles as markup, escaped, and the host in a sentence for those who hear it."""
    drawn, told = [], Counter[str]()
    for cell in cells:
        if cell.gpu is None:
            continue
        # Who came while the page was read has no line in the legend yet.
        shade = shades.get(cell.keys[choice][0], _NEW)
        words = gpu_words(cell.gpu)
        told[shade.word] += 1
        cut = "" if cell.gpu.cut == WHOLE else f" {cell.gpu.cut}"
        said = [] if choice in (TENANT, HEALTH) else [shade.word]
        said += [words["state"], words["tenant"], words["health"]]
        if cut:
            said.append(words["cut"])
        title = f"GPU {cell.gpu.index}: {', '.join(said)}"
        drawn.append(el("i", escape(shade.sign), cls=f"{shade.cls}{cut}", title=title))
    what = ", ".join(f"{n} {word}" for word, n in told.items()) or "no GPU known yet"
    return Tiles(node.name, f"{node.name}: {what}", mark_safe("".join(drawn)))
