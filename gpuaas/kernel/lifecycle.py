"""Which moves exist?  A table per noun, bound to django-fsm by name and to the database.

The table is the only declaration: model methods, the database trigger and the printed
diagram all come from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import django_fsm
from django.db import models

_registry: dict[str, Lifecycle] = {}


@dataclass(frozen=True, slots=True)
class Edge:
    """One named move; ``by`` says who pulls it: tenant, operator, node or platform."""

    name: str
    sources: tuple[str, ...]
    target: str
    by: str


class Lifecycle:
    """The states and moves of one noun."""

    def __init__(
        self,
        noun: str,
        states: type[models.TextChoices],
        *,
        initial: str,
        edges: tuple[Edge, ...],
        final: tuple[str, ...] = (),
    ) -> None:
        """``noun`` is ``app.model`` in lower case; the table is checked for sense at once."""
        self.noun = noun
        self.states = states
        self.initial = initial
        self.edges = {edge.name: edge for edge in edges}
        self.final = frozenset(final)
        known = set(states.values)
        if len(self.edges) != len(edges):
            raise ValueError(f"{noun}: two edges share a name")
        for edge in edges:
            strange = ({*edge.sources, edge.target} - known) | ({*edge.sources} & self.final)
            if strange or not edge.sources:
                raise ValueError(f"{noun}.{edge.name}: impossible states {sorted(strange)}")
        _registry[noun] = self

    def field(self) -> Any:
        """The state column. The database trigger, not the attribute, is its guard.

        Not indexed: a handful of values tells few rows apart, and every move would be written
        into two more indexes. What is looked for by state has a partial index of its own.
        """
        return django_fsm.FSMField(
            default=self.initial, choices=self.states.choices, db_index=False, max_length=24
        )

    def move(self, name: str) -> Callable[..., None]:
        """A django-fsm transition for the edge of this name, for a model's body."""
        edge = self.edges[name]

        def method(self: models.Model) -> None:
            """Only the state moves here; ``transitions.advance`` does the rest."""

        method.__name__ = name
        bound: Callable[..., None] = django_fsm.transition(
            field="state",
            source=list(edge.sources),
            target=edge.target,
            custom={"by": edge.by},
        )(method)
        return bound

    def pairs(self) -> list[tuple[str, str]]:
        """Every allowed (from, to), as the database trigger checks them."""
        return sorted({(s, e.target) for e in self.edges.values() for s in e.sources})

    def mermaid(self) -> str:
        """The diagram printed into docs/lifecycles."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        for edge in self.edges.values():
            lines += [f"    {s} --> {edge.target}: {edge.name} ({edge.by})" for s in edge.sources]
        lines += [f"    {state} --> [*]" for state in self.states.values if state in self.final]
        return "\n".join(lines)


def registered() -> dict[str, Lifecycle]:
    """Every declared lifecycle, by noun."""
    return dict(sorted(_registry.items()))
