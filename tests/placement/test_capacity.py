"""Which of the seven postures does a node have?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement.domain.capacity import POSTURES, NodeFacts, posture, schedulable

FREE = NodeFacts(
    state="ready",
    draining=False,
    health="ok",
    blocking_conditions=(),
    approved=8,
    free=8,
    whole_claimed=False,
    slot_claims=0,
    cleanup_blocked=0,
)
CASES: dict[str, tuple[dict[str, object], str, bool]] = {
    "nothing is claimed": ({}, "fully_available", True),
    "some slots are claimed": ({"slot_claims": 2, "free": 6}, "partially_allocated", True),
    "no slot is left": ({"slot_claims": 8, "free": 0}, "fully_allocated", True),
    "the whole node is claimed": ({"whole_claimed": True, "free": 0}, "exclusive_baremetal", True),
    "it drains": ({"draining": True, "slot_claims": 2, "free": 6}, "draining", False),
    "a cleanup is not proven": ({"cleanup_blocked": 1, "free": 7}, "cleanup_blocked", True),
    "traces of a tenant are left": (
        {"blocking_conditions": ("residue_found",), "health": "degraded"},
        "cleanup_blocked",
        False,
    ),
    "traces are left and a prerequisite is missing": (
        {"blocking_conditions": ("residue_found", "prerequisite_missing"), "health": "degraded"},
        "unavailable",
        False,
    ),
    "a blocked cleanup on a draining node": (
        {"cleanup_blocked": 1, "draining": True, "free": 7},
        "cleanup_blocked",
        False,
    ),
    "a prerequisite is missing": (
        {"blocking_conditions": ("prerequisite_missing",), "health": "degraded"},
        "unavailable",
        False,
    ),
    "it is silent": ({"health": "unknown"}, "unavailable", False),
    "it is in quarantine": ({"state": "quarantined"}, "unavailable", False),
    "no slot is approved": ({"approved": 0, "free": 0}, "unavailable", False),
    "every slot is drained one by one": ({"free": 0}, "unavailable", True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_posture_follows_from_claims_and_evidence(case: str) -> None:
    change, want, may = CASES[case]
    facts = replace(FREE, **change)  # type: ignore[arg-type]  # fields by name
    assert posture(facts) == want
    assert schedulable(facts) is may


def test_the_cases_show_all_seven_postures() -> None:
    assert {want for _, want, _ in CASES.values()} == set(POSTURES)
