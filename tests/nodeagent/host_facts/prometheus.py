"""What would a strict reader of Prometheus' text format (version 0.0.4) make of a page?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
_KINDS = frozenset({"counter", "gauge"})


@dataclass(frozen=True)
class Page:
    """The samples by family's name and labels, and each family's kind."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    kinds: dict[str, str]

    def of(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """One family's samples by labels."""
        return {labels: value for (found, labels), value in self.samples.items() if found == name}


def parse(text: str) -> Page:
    """The page. Raises ValueError with the line that a reader would refuse."""
    if not text.endswith("\n"):
        raise ValueError("the last line is not ended")
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            if name in helped or not re.fullmatch(_NAME, name):
                raise ValueError(f"helped twice, or no name: {line}")
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in kinds or kind not in _KINDS or name not in helped:
                raise ValueError(f"typed twice, or of no kind: {line}")
            kinds[name], current = kind, name
        else:
            name, labels, value = _sample(line)
            if name != current:
                raise ValueError(f"outside of its family: {line}")
            if (name, labels) in samples:
                raise ValueError(f"told twice: {line}")
            samples[(name, labels)] = value
    for name in kinds:
        if not any(found == name for found, _ in samples):
            raise ValueError(f"a family without a sample: {name}")
    return Page(samples, kinds)


def _sample(line: str) -> tuple[str, tuple[tuple[str, str], ...], float]:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(f"no sample: {line!r}")
    name, inside, number = match.groups()
    labels: list[tuple[str, str]] = []
    at = 0
    while inside and at < len(inside):
        found = _LABEL.match(inside, at)
        if found is None:
            raise ValueError(f"no labels: {line!r}")
        labels.append((found.group(1), re.sub(r"\\(.)", _plain, found.group(2))))
        at = found.end()
    if len({one for one, _ in labels}) != len(labels):
        raise ValueError(f"a label twice: {line!r}")
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"no number: {line!r}")
    return name, tuple(labels), value


def _plain(found: re.Match[str]) -> str:
    return "\n" if found.group(1) == "n" else found.group(1)
