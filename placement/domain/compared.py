"""How is the choice between places told in words, to those who may know the host and to others?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FIRST_CHOICE = "; first choice "
_REACHED: Final = {
    "direct": "GPUs linked directly",
    "hop": "GPUs linked over GPUs of the set",
    "pcie": "GPUs not all linked",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One place of a decision: ``chosen`` or ``second``, and what speaks for it."""

    rank: str
    words: str


def choice_in(why: str) -> Mapping[str, Any]:
    """The numbers of the first choice, as a decision keeps them in its sentence; or nothing."""
    _, found, rest = why.partition(FIRST_CHOICE)
    if not found:
        return {}
    try:
        numbers, _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return {}
    return numbers if isinstance(numbers, dict) else {}


def compared(
    why: str,
    runner_up: Mapping[str, Any] | None,
    *,
    facts: Mapping[str, Any],
    names: Mapping[int, str],
) -> list[Compared]:
    """The chosen place and the second, in words.

    ``facts`` are those of the capacity gate: of a set they say how close it came. ``names`` are
    the hosts' names by number; without them no host and no part of the fleet is named.
    """
    first = choice_in(why)
    if not first:
        return []
    part = why.rpartition("; in ")[2] if names and "members" in facts else ""
    words = _set(facts, part) if "members" in facts else _place(first, names)
    out = [Compared("chosen", words)]
    if runner_up and "part" in runner_up:
        out.append(Compared("second", _second_part(str(runner_up["part"]), bool(names))))
    elif runner_up:
        out.append(Compared("second", _place(runner_up, names)))
    return out


def _set(facts: Mapping[str, Any], part: str) -> str:
    level = facts.get("level_met", "none")
    where = f"within one {level}" if level != "none" else "over parts that share no level"
    wanted = [f"{word} {facts[word]}" for word in ("together", "close") if facts.get(word)]
    wanted += ["each on a node of its own"] if facts.get("apart") else []
    said = f"{_count(facts['members'], 'member')} on {_count(facts['nodes'], 'node')}, {where}"
    said += f" ({part})" if part else ""
    if facts.get("preferred"):
        met = facts.get("preferred_met")
        said += f", near {', '.join(met)}" if met else ", near no preferred data"
    return f"{said}; asked: {', '.join(wanted)}" if wanted else said


def _second_part(part: str, named: bool) -> str:
    return f"{part}: the next tightest with free slots for the set" if named else "another part"


def _place(numbers: Mapping[str, Any], names: Mapping[int, str]) -> str:
    if "gpu_part" in numbers:
        return _gpu_part(numbers, names)
    parts = [
        _count(numbers.get("numa_nodes", 0), "NUMA node"),
        _count(numbers.get("switches", 0), "switch", "switches"),
        _count(numbers.get("nvlink_domains", 0), "NVLink domain"),
    ]
    spans = [part for part in parts if not part.startswith("0 ")]
    words = [f"spans {', '.join(spans)}"] if spans else ["a whole node"]
    if "nvlink_reach" in numbers:
        words.append(_linked(numbers))
    if "left_on_node" in numbers:
        words.append(f"leaves {_count(numbers['left_on_node'], 'slot')} free on the node")
    lost = numbers.get("room_lost_milli")
    if lost:
        verb = "costs" if lost > 0 else "mends"
        words.append(f"{verb} {abs(lost) / 1000:g} slots of room for usual requests")
    said = ", ".join(words)
    num = numbers.get("node_num")
    if not names or num is None:
        return said
    slots = ", ".join(map(str, numbers.get("slots", [])))
    return f"{names.get(num, f'node {num}')}, slots {slots}: {said}"


def _linked(numbers: Mapping[str, Any]) -> str:
    how = _REACHED.get(numbers["nvlink_reach"], str(numbers["nvlink_reach"]))
    links, least = numbers.get("nvlink_links", 0), numbers.get("nvlink_bottleneck", 0)
    if not links:
        return how
    said = f"{how}, {_count(links, 'link')} in all"
    return f"{said}, {least} between the two joined worst" if least else said


def _gpu_part(numbers: Mapping[str, Any], names: Mapping[int, str]) -> str:
    words = f"{numbers['gpu_part']}, leaves {numbers.get('left_milli', 0)}/1000 of the GPU"
    num = numbers.get("node_num")
    if not names or num is None:
        return words
    slots = ", ".join(map(str, numbers.get("slots", [])))
    return f"{names.get(num, f'node {num}')}, slot {slots}: {words}"


def _count(count: Any, word: str, plural: str = "") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {plural or word + 's'}"
