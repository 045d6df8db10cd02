"""Where does an order want to stand: to the tenant's own, to each other, and in the fleet?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from admission.domain.decide import place_of, wishes_of
from admission.domain.facts import Facts
from admission.domain.locality import Conflict
from admission.models import Action
from gpuaas.kernel.errors import FieldError, InvalidRequest
from placement.domain.order import AllocationOrder
from placement.domain.sets import LEVELS, Closeness, beside
from placement.domain.terms import OWN, Terms
from placement.services.intents import leaving_of
from placement.snapshots import Ask, Look, Target
from placement.snapshots.sites import standing_of

JOINS: Final = (Action.SCALE, Action.PLACEMENT)
"""Actions whose new allocations stand beside others of the workload."""


def own_of(order: AllocationOrder, terms: Terms) -> str:
    """How the tenant's own claims bind it. Raises InvalidRequest where the terms say otherwise."""
    if order.own not in OWN:
        raise _wrong("own", "unknown", "with or apart")
    if terms.own and terms.own != order.own:
        raise _wrong("own", "not_allowed", f"what is sold here is placed {terms.own} your own")
    return order.own


def closeness_of(ask: Ask) -> Closeness:
    """How close its allocations have to be, also to those of the workload that stand already.

    Raises InvalidRequest naming the field of a level that there is not.
    """
    order = ask.order
    for name, level in (("together", order.together), ("close", order.close)):
        if level and level not in LEVELS:
            raise _wrong(name, "unknown", f"one of {', '.join(LEVELS)}")
    close = Closeness(order.together, order.close, order.apart)
    if close.matters and ask.action in JOINS and ask.workload_id is not None:
        leaving = ask.more.get("moves", ())
        if ask.action == Action.SCALE:
            # While it moves it has both places: who joins it belongs to the new one.
            leaving = leaving_of(ask.workload_id)
        return beside(close, standing_of(ask.workload_id, leaving=leaving))
    return close


def _wrong(field: str, code: str, text: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {text}.", errors=(FieldError(f"/{field}", code, text),))


def target_of(met: Look, facts: Facts, nodes: tuple[str, ...]) -> Target | None:
    """The target, bound to the places that zones, storage and required data leave, and to nodes.

    Preferred data binds nothing: it orders the places. None when it has to be on other nodes.
    """
    where = met.where
    if where is not None and (facts.zones or facts.data or facts.storage):
        place = place_of(facts)
        if not isinstance(place, Conflict):
            where = replace(where, near=place, prefer=wishes_of(facts))
    if where is None or not nodes:
        return where
    near = where.near
    kept = tuple(name for name in nodes if not near.nodes or name in near.nodes)
    return replace(where, near=replace(near, nodes=kept)) if kept else None


def wishes_kept(order: AllocationOrder) -> dict[str, Any]:
    """The wishes about where and when, kept with the request if there are any."""
    parts = {
        "zones": list(order.zones),
        "datasets": list(order.datasets),
        "storage": list(order.storage),
        "band": order.band,
        "sharing": order.sharing,
        "together": order.together,
        "close": order.close,
        "apart": order.apart or None,
        "own": order.own,
        "max_duration_s": order.max_duration_s,
    }
    return {name: value for name, value in parts.items() if value not in ([], None, "")}
