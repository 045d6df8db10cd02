"""How do an operator's pages write a tier's terms?"""

from __future__ import annotations

from collections import Counter
from typing import Any

from django import template

from gpuaas.ui import formats

register = template.Library()

NAMES = {
    "availability_ppm": "availability",
    "provision_target_s": "time to provision",
    "throughput_floor_permille": "throughput",
    "protected_run_s": "protected run time",
    "checkpoint_grace_s": "checkpoint grace",
}


@register.filter
def term_name(name: str) -> str:
    """A term's code as words."""
    return NAMES.get(name, name.replace("_", " "))


def _share(amount: int, whole: int) -> str:
    return f"{amount * 100 / whole:.6f}".rstrip("0").rstrip(".") + " %"


def _ladder(rungs: list[dict[str, int]]) -> str:
    if not rungs:
        return "no credits"
    return "; ".join(
        f"below {_share(rung['below_ppm'], 1_000_000)}: {_share(rung['credit_permille'], 1000)}"
        for rung in rungs
    )


@register.filter
def term(value: Any, name: str) -> str:
    """A term's value with its unit: parts per million as percent, seconds as a span."""
    if name == "credit_ladder":
        return _ladder(value or [])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "availability_ppm":
        return _share(value, 1_000_000) if value else "none promised"
    if name == "throughput_floor_permille":
        return f"{_share(value, 1000)} of what is expected" if value else "none promised"
    if name.endswith("_s"):
        return formats.span(value)
    return str(value).replace("_", " ")


@register.filter
def tally(states: list[str]) -> str:
    """How many of each state, in words: ``4 held, 4 free``."""
    counted = Counter(states)
    return ", ".join(f"{count} {state}" for state, count in counted.items())


@register.filter
def as_list(value: object) -> list[object]:
    """One thing as a list of it, for a part that shows many."""
    return [value]
