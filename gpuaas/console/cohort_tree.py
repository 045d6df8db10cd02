"""How is the tree of those who share drawn: cohorts, the tenants in them, and what is taken?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.svg import clip, el, text
from gpuaas.ui.formats import milli
from tenants.models import Cohort, CohortCounter, QuotaCounter, ResourceClass, Tenant

WIDTH = 900
ROW_H = 30
INDENT = 26
BAR_X, BAR_W, BAR_H = 400.0, 330, 12
NUMBER_X = 745.0
NAME_CHARS = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree: a cohort, or a tenant in one. Amounts in milli-units.

    For a cohort ``whole`` is what its members lend it and ``used`` what they took of that;
    for a tenant they are its nominal and what it holds.
    """

    name: str
    slug: str
    depth: int
    cohort: bool
    whole: int
    used: int
    excess: int
    parent: int | None
    """The line of the cohort it is in, if it is in one."""
    inside: str = ""


def rows_of(kind: ResourceClass | None) -> list[Row]:
    """The tree in the order of its drawing, with one class's numbers (None: no numbers)."""
    cohorts = list(Cohort.objects.order_by("name"))
    tenants = Tenant.objects.filter(cohort__isnull=False).order_by("name")
    pots: dict[UUID, CohortCounter] = {}
    counters: dict[UUID, QuotaCounter] = {}
    if kind is not None:
        pots = {p.cohort_id: p for p in CohortCounter.objects.filter(resource_class=kind)}
        counters = {c.tenant_id: c for c in QuotaCounter.objects.filter(resource_class=kind)}
    inside: dict[UUID | None, list[Cohort]] = {}
    for cohort in cohorts:
        inside.setdefault(cohort.parent_id, []).append(cohort)
    members: dict[UUID | None, list[Tenant]] = {}
    for tenant in tenants:
        members.setdefault(tenant.cohort_id, []).append(tenant)
    rows: list[Row] = []

    def name_at(line: int | None) -> str:
        return "" if line is None else rows[line].name

    def walk(cohort: Cohort, depth: int, parent: int | None) -> None:
        here = len(rows)
        pot = pots.get(cohort.pk)
        numbers = (pot.quota_milli, pot.used_milli, pot.grandfathered_milli) if pot else (0, 0, 0)
        title = cohort.title or cohort.name
        rows.append(Row(title, cohort.name, depth, True, *numbers, parent, name_at(parent)))
        for child in inside.get(cohort.pk, []):
            walk(child, depth + 1, here)
        for tenant in members.get(cohort.pk, []):
            own = counters.get(tenant.pk)
            held = (own.limit_milli, own.used_milli, own.grandfathered_milli) if own else (0, 0, 0)
            rows.append(Row(tenant.name, tenant.slug, depth + 1, False, *held, here, title))

    for root in inside.get(None, []):
        walk(root, 0, None)
    return rows


def drawing(rows: list[Row], title: str) -> SafeString:
    """The tree as SVG; the table beside it tells the same in words."""
    most = max((max(row.whole, row.used) for row in rows), default=0) or 1
    height = len(rows) * ROW_H + 8
    parts = [el("title", title), *(_row(row, n, rows, most) for n, row in enumerate(rows))]
    drawn = el(
        "svg",
        *parts,
        cls="tree",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_label=title,
    )
    return mark_safe(drawn)  # Every word went through escape() in svg.text.


def _middle(n: int) -> float:
    return n * ROW_H + ROW_H / 2 + 4


def _row(row: Row, n: int, rows: list[Row], most: int) -> str:
    y, x = _middle(n), 10 + row.depth * INDENT
    return el("g", *_parts(row, x, y, rows, most))


def _parts(row: Row, x: float, y: float, rows: list[Row], most: int) -> Iterable[str]:
    if row.parent is not None:
        above = 10 + rows[row.parent].depth * INDENT
        path = f"M{above} {_middle(row.parent) + 8:g}V{y:g}H{x - 6:g}"
        yield el("path", d=path, cls="branch")
    if row.cohort:
        yield el("rect", x=x - 6, y=y - 6, width=12, height=12, rx=2, cls="pot")
    else:
        yield el("circle", cx=float(x), cy=float(y), r=4, cls="leaf")
    yield text(clip(row.name, NAME_CHARS), x + 14, y + 4, "strong" if row.cohort else "")
    if not row.whole and not row.used:
        yield text("nothing of this class", BAR_X, y + 4, "faint")
        return
    top = y - BAR_H / 2
    whole, used = (max(2.0, amount / most * BAR_W) for amount in (row.whole, row.used))
    yield el("rect", x=BAR_X, y=top, width=whole, height=BAR_H, rx=2, cls="whole")
    if row.used:
        within = min(used, whole) if row.used > row.whole else used
        yield el("rect", x=BAR_X, y=top, width=within, height=BAR_H, rx=2, cls="used")
    if row.used > row.whole:
        beyond = used - whole
        yield el("rect", x=BAR_X + whole, y=top, width=beyond, height=BAR_H, cls="beyond")
    words = "taken of what is shared" if row.cohort else "held of its own"
    yield text(f"{milli(row.used)} of {milli(row.whole)}", NUMBER_X, y, "")
    yield text(words, NUMBER_X, y + 11, "faint")
