"""Is every pair of acts, preempted at every statement, as if one act had come first?

Every pair of claim, release, drain, approve, reboot, move and defragment, cut at each statement
and each commit on real PostgreSQL (tests/stepping.py). Of each pair both serial orders are played
first; then one act goes to its statement k, the other to its end, and the first goes on: for each
k, in both roles; and seeded schedules of two and three switches. After each the hosts do what is
due, every audit is asked, and what came out has to be what a serial order gives. Where every row
is as it was after an earlier schedule but for times and the names of what is new, what follows and
what audits find is known already.

RACE_POINTS and RACE_SEEDS bound the points and the seeded schedules of a pair; RACE_REPORT is a
file for the figures.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Final

import pytest

from gpuaas.kernel import clock
from tests.placement.acts import ACTS, AT_ONCE, Fleet, found, outcome
from tests.stepping import Played, Schedule, Stepper, Still, superuser

POINTS: Final = int(os.environ.get("RACE_POINTS", "2"))
SEEDS: Final = int(os.environ.get("RACE_SEEDS", "1"))
REPORT: Final = os.environ.get("RACE_REPORT", "")
PAIRS: Final = list(combinations_with_replacement(ACTS, 2))
FRESH_S: Final = 240.0
"""Things have their time; the world is made anew after so long."""
BUSY: Final = {"concurrent_update", "operation_in_progress"}
"""What a caller may be told who lost a race: nothing happened by it, ask again."""
Came = tuple[list[str], tuple[Any, ...]]
"""A code for each act, and what was so in the end."""


@dataclass
class Figures:
    """What was played of one pair."""

    played: int = 0
    waited: int = 0
    states: int = 0
    """In how many different states the two left the database."""
    wrong: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each act was answered with which code."""


class Table:
    """The fleet, the rows as they were, and the two lines."""

    def __init__(self, own: Any, stepper: Stepper) -> None:
        self.stepper = stepper
        self.fleet = Fleet()
        self.base, self.still = Still(own, "base"), Still(own, "still")
        self.base.keep()
        self._began: tuple[tuple[str, str], float] | None = None
        self.settled: dict[tuple[str, ...], tuple[tuple[Any, ...], list[str]]] = {}
        """What became of a state of this world, and what audits found before and after."""

    def lay(self, pair: tuple[str, str]) -> None:
        """The pair's world, as it is before either act."""
        now = clock.monotonic()
        if self._began is not None and self._began[0] == pair and now - self._began[1] < FRESH_S:
            self.still.bring_back()
            self.fleet.again()
            return
        self.base.bring_back()
        self.fleet.clear()
        self.acts = self.fleet.prepare(pair)
        self.still.keep()
        self.settled.clear()
        self._began = (pair, now)

    def alone(self, pair: tuple[str, str], who: int, code: str) -> Came:
        """What comes out of one act, where the other one is told ``code`` and does nothing."""
        self.lay(pair)
        acts = (self.acts[0], _nothing) if who == 0 else (_nothing, self.acts[1])
        result = self.stepper.play(acts, [])
        self.fleet.settle()
        codes = [code, code]
        codes[who] = result.codes[who]
        return codes, outcome()

    def played(self, pair: tuple[str, str], schedule: Schedule) -> tuple[Played, Came, list[str]]:
        """One schedule from the start, what came out of it, and what is wrong with that."""
        self.lay(pair)
        result = self.stepper.play(self.acts, schedule)
        wrong = [code for code in result.codes if ":" in code]
        came = self.still.told()
        if came not in self.settled:
            at_once = found(*AT_ONCE)
            self.fleet.settle()
            self.settled[came] = (outcome(), [*map(str, at_once), *map(str, found())])
        state, found_wrong = self.settled[came]
        return result, (result.codes, state), wrong + found_wrong


def _nothing() -> None:
    """An act that is none."""


def lost_in(came: Came) -> list[int]:
    """Which of the acts were told that they lost a race."""
    return [who for who, code in enumerate(came[0]) if code in BUSY]


def spread(steps: int, most: int) -> list[int]:
    """At most so many of the points between ``steps`` steps, far from each other."""
    points = range(1, steps)
    if len(points) <= most:
        return list(points)
    return sorted({points[(2 * k + 1) * len(points) // (2 * most)] for k in range(most)})


def schedules(steps: list[int], seed: int) -> list[Schedule]:
    """Every single preemption in both roles, then seeded ones of two and three switches."""
    found: list[Schedule] = [
        ((who, k), (1 - who, None)) for who in (0, 1) for k in spread(steps[who], POINTS)
    ]
    rng = random.Random(seed)
    wanted = len(found) + SEEDS
    for _ in range(10 * SEEDS):
        who = rng.randint(0, 1)
        turns = [(turn, rng.randint(1, max(1, steps[turn] - 1))) for turn in (who, 1 - who, who)]
        one = (*turns, (1 - who, None)) if rng.random() < 0.5 else tuple(turns[:2])
        if one not in found and len(found) < wanted:
            found.append(one)
    return found


def as_if(pair: tuple[str, str], came: Came, serial: list[Came]) -> bool:
    """Whether it is as if one act had come first.

    Who lost a race may be told so, and a run of moves that was begun may end as one that is
    refused: nothing happened by either.
    """
    return any(
        came[1] == state
        and all(
            mine == theirs
            or mine in BUSY
            or (name == "defragment" and not mine and theirs.startswith("defrag_"))
            for name, mine, theirs in zip(pair, came[0], codes, strict=True)
        )
        for codes, state in serial
    )


def play_pair(table: Table, pair: tuple[str, str]) -> Figures:
    """All schedules of one pair."""
    figures = Figures()
    serial: list[Came] = []
    for who in (0, 1):
        order: Schedule = ((who, None), (1 - who, None))
        result, came, wrong = table.played(pair, order)
        assert wrong == [], (pair, order)
        serial.append(came)
        figures.steps.append(result.steps[who])
    for schedule in schedules(figures.steps, PAIRS.index(pair)):
        result, came, wrong = table.played(pair, schedule)
        figures.played += 1
        figures.waited += result.waited > 0
        figures.codes.update(zip(pair, (code or "done" for code in result.codes), strict=True))
        if not as_if(pair, came, serial) and len(lost := lost_in(came)) == 1:
            # Nothing happened by the one that was told so: as if the other had been alone.
            serial.append(table.alone(pair, 1 - lost[0], came[0][lost[0]]))
        if not as_if(pair, came, serial):
            wrong.append(f"{came} is no serial order's: {serial}")
        figures.wrong += [f"{pair} {schedule}: {one}" for one in wrong]
        figures.states = max(figures.states, len(table.settled))
    return figures


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(0 if REPORT else 900)
def test_every_pair_of_acts_in_any_order_of_their_statements_is_as_one_after_the_other(
    services_folder: Path,
) -> None:
    began = clock.monotonic()
    figures: dict[str, Figures] = {}
    with superuser(services_folder) as own, Stepper(own) as stepper:
        table = Table(own, stepper)
        for pair in PAIRS:
            name = " x ".join(pair)
            figures[name] = play_pair(table, pair)
            one = figures[name]
            said = f"{one.played:5} of {one.steps} steps, {one.waited} waited, {one.states} states"
            print(f"{name:24} {said}", flush=True)
            for wrong in one.wrong:
                print(wrong, flush=True)
        table.base.drop()
        table.still.drop()
    codes: Counter[tuple[str, str]] = sum((one.codes for one in figures.values()), Counter())
    told = {
        "interleavings": sum(one.played for one in figures.values()),
        "waited": sum(one.waited for one in figures.values()),
        "wrong": sum(len(one.wrong) for one in figures.values()),
        "seconds": round(clock.monotonic() - began),
        "answers": {f"{act}: {code}": n for (act, code), n in sorted(codes.items())},
        "pairs": {name: one.played for name, one in figures.items()},
    }
    if REPORT:
        Path(REPORT).write_text(json.dumps(told) + "\n", encoding="utf-8")
    assert [wrong for one in figures.values() for wrong in one.wrong] == []
    assert all(one.played >= 2 for one in figures.values())
    assert told["waited"], "the acts never met"
    assert all(codes[act, "done"] > codes.total() // 100 for act in ACTS), codes
