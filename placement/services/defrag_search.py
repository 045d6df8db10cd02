"""Which work may be moved where, and which moves make room?  A page of hosts at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from admission.domain.locality import Near
from admission.models import Action, Workload
from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from placement.domain.defrag import Budget, MovePlan, NoMoves, Piece, plan_moves
from placement.domain.fit import Want
from placement.services import requests
from placement.services.workload_changes import order_of
from placement.snapshots import ANYWHERE, Ask, Target, look_many
from placement.snapshots.movable import Movable, Standing, movable_on, standing_hosts, staying_on

PAGES = 8
"""So many pages of hosts are looked at for one plan."""
REFUSED = "move_refused"
PLANNER = Actor(kind="system", id="defrag", name="platform/defrag", operator=True)


@dataclass(frozen=True, slots=True)
class Searched:
    """What came of looking: at the last page of hosts, and how many hosts in all."""

    found: MovePlan | NoMoves
    known: dict[int, Standing]
    movable: list[Movable]
    pieces: int
    looked_at: int
    whole: bool
    """Whether one page held all hosts and all that may be moved, so that the answer is exact."""
    left_out: dict[str, int]


def moves_searched(where: Target, want: Want, budget: Budget) -> Searched:
    """Plan over a page of hosts at a time, those nearest to the size first, until there is a plan.

    Beyond one page a plan moves work within a page only.
    """
    everywhere = replace(where, near=ANYWHERE, prefer=())
    left_out: Counter[str] = Counter()
    pieces = looked_at = 0
    least: int | None = None
    for page in range(PAGES):
        # Any host may give or take work, but room is made only where the request may run.
        hosts, last = standing_hosts(everywhere, want, skip=looked_at)
        known = {host.place.num: host for host in hosts}
        movable, all_pieces = movable_on(list(known))
        mine = _pieces(movable, hosts)
        left_out.update(staying_on(list(known), [one.id for one in movable]))
        left_out.update({REFUSED: len(movable) - len(mine)})
        pieces, looked_at = pieces + len(mine), looked_at + len(hosts)
        found = plan_moves(
            [host.place for host in hosts],
            mine,
            want,
            budget,
            clean={num: host.clean for num, host in known.items()},
            hosts=frozenset(
                num
                for num, host in known.items()
                if host.wanted and _may_go(where.near, want, host)
            ),
        )
        if isinstance(found, NoMoves):
            needs = [need for need in (least, found.least) if need is not None]
            least = min(needs, default=None)
            found = NoMoves(found.decided, least)
        whole = page == 0 and last and all_pieces
        told = {code: count for code, count in sorted(left_out.items()) if count}
        done = Searched(found, known, movable, pieces, looked_at, whole, told)
        if last or isinstance(found, MovePlan):
            break
    return done


def _pieces(movable: list[Movable], hosts: list[Standing]) -> list[Piece]:
    """What may be moved and would be admitted elsewhere now, with the hosts it may go to."""
    rows = {row.pk: row for row in _workloads(movable)}
    kept = [one for one in movable if one.workload_id in rows]
    asks = [_ask(rows[one.workload_id], ()) for one in kept]
    out = []
    for one, ask, met in zip(kept, asks, look_many(asks), strict=True):
        try:
            item = requests.item_of(ask, met, actor=PLANNER)
        except errors.ProductError:
            continue
        if item.verdict.refusal is not None or item.where is None:
            continue
        want = Want(one.slots, item.want.exclusive_nic, item.want.terms, item.authority.tenant_id)
        allowed = frozenset(
            host.place.num for host in hosts if _may_go(item.where.near, want, host)
        )
        everywhere = len(allowed) == len(hosts)
        out.append(
            Piece(
                str(one.id),
                one.num,
                one.mask,
                want,
                one.lost_milli,
                None if everywhere else allowed,
            )
        )
    return out


def _workloads(movable: list[Movable]) -> list[Workload]:
    found = Workload.objects.filter(pk__in={one.workload_id for one in movable})
    return list(found.select_related("sku"))


def _may_go(near: Near, want: Want, host: Standing) -> bool:
    terms = want.terms
    here = (
        (not near.zones or host.zone in near.zones)
        and (not near.racks or host.rack in near.racks)
        and (not near.nodes or host.name in near.nodes)
    )
    below = terms.driver_below
    known = not below or (bool(host.driver) and host.driver < below)
    return here and known and host.driver >= terms.driver_min and host.runtime >= terms.runtime_min


def _ask(row: Workload, moves: tuple[str, ...], *, node: str = "", **more: Any) -> Ask:
    """What admission is asked for one replica's move."""
    return Ask(
        row.tenant_id,
        row.project_id,
        order_of(row, name=f"{row.name}-d{row.generation}"),
        action=Action.PLACEMENT,
        workload_id=row.pk,
        subject_id=row.pk,
        nodes=(node,) if node else (),
        more={"kind": row.kind, "moves": list(moves), "generation": row.generation, **more},
    )


def move_ask(row: Workload, *, allocation: str, node: str, why: UUID) -> Ask:
    """The request that moves one allocation of a workload to one node."""
    return _ask(row, (allocation,), node=node, defragmentation=str(why))
