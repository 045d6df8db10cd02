"""How does a state change?  Through this one door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import django_fsm
from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models.base import Stateful

S = TypeVar("S", bound=Stateful)


@transaction.atomic
def advance(
    obj: S,
    edge: str,
    *,
    actor: Actor,
    reason: str = "",
    changes: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> S:
    """Pull one edge of ``obj``'s lifecycle: lock, move, save and record, together.

    ``changes`` are fields of the same row set with the move; ``facts`` go into the event.
    Raises ConcurrentUpdate when ``obj`` shows another state than the locked row, and
    TransitionRefused when the row's state has no such edge. Returns the fresh row.
    """
    manager = type(obj)._default_manager
    row = manager.select_for_update(no_key=True, of=("self",)).filter(pk=obj.pk).first()
    if row is None:
        raise errors.NotFound
    label = row._meta.label_lower
    if row.state != obj.state:
        raise errors.ConcurrentUpdate(
            f"{label} is {row.state}, not {obj.state} as it was when it was read.",
            state=row.state,
            seen=obj.state,
        )
    before = row.state
    try:
        getattr(row, edge)()
    except django_fsm.TransitionNotAllowed as refused:
        raise errors.TransitionRefused(
            f"{label} is {before}; {edge} is not possible from there.", state=before, edge=edge
        ) from refused
    for name, value in (changes or {}).items():
        setattr(row, name, value)
    row.state_since = clock.now()
    row.version += 1
    row.save(update_fields=["state", "state_since", "version", *(changes or {})])
    events.record(
        kind=f"{label}.{edge}",
        subject=row,
        actor=actor,
        before={"state": before},
        after={"state": row.state},
        reason=reason,
        facts=dict(facts or {}),
    )
    return row
