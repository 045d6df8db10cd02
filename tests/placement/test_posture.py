"""Which posture does a node have, and is work placed only where it may be?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.domain.capacity import POSTURES, RESIDUE, NodeFacts, posture, schedulable
from placement.domain.proof import missing_steps

WELL = NodeFacts("ready", False, "ok", (), 8, 8, False, 0, 0)


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (WELL, "fully_available"),
        (replace(WELL, free=6, slot_claims=2), "partially_allocated"),
        (replace(WELL, free=0, slot_claims=8), "fully_allocated"),
        (replace(WELL, free=0, whole_claimed=True), "exclusive_baremetal"),
        (replace(WELL, draining=True), "draining"),
        (replace(WELL, draining=True, free=6, slot_claims=2), "draining"),
        (replace(WELL, draining=True, free=6, slot_claims=2, cleanup_blocked=1), "cleanup_blocked"),
        (replace(WELL, blocking_conditions=(RESIDUE,), health="degraded"), "cleanup_blocked"),
        (replace(WELL, residue=1), "cleanup_blocked"),
        (replace(WELL, residue=1, draining=True), "cleanup_blocked"),
        (replace(WELL, residue=1, health="unknown"), "unavailable"),
        (replace(WELL, blocking_conditions=("iommu_off",)), "unavailable"),
        (replace(WELL, blocking_conditions=(RESIDUE, "iommu_off")), "unavailable"),
        (replace(WELL, health="unknown"), "unavailable"),
        (replace(WELL, health="degraded"), "unavailable"),
        (replace(WELL, state="quarantined"), "unavailable"),
        (replace(WELL, state="verifying", approved=0, free=0), "unavailable"),
        (replace(WELL, free=0), "unavailable"),
    ],
)
def test_the_most_restrictive_posture_is_shown(facts: NodeFacts, shown: str) -> None:
    assert posture(facts) == shown


facts = st.builds(
    NodeFacts,
    st.sampled_from(["enrolling", "inspecting", "verifying", "ready", "maintenance", "retired"]),
    st.booleans(),
    st.sampled_from(["ok", "degraded", "unknown"]),
    st.lists(st.sampled_from([RESIDUE, "iommu_off"]), max_size=2).map(tuple),
    st.integers(0, 8),
    st.integers(0, 8),
    st.booleans(),
    st.integers(0, 8),
    st.integers(0, 8),
)


@given(facts)
def test_every_node_has_one_of_the_seven_postures(seen: NodeFacts) -> None:
    assert posture(seen) in POSTURES


@given(facts)
def test_nothing_new_goes_where_the_posture_forbids_it(seen: NodeFacts) -> None:
    if posture(seen) in ("draining", "unavailable") and seen.free:
        assert not schedulable(seen)


STEPS = ("vm_gone", "gpu_scrubbed", "no_process", "nvme_sanitised", "nic_reset")
step = st.fixed_dictionaries(
    {
        "step": st.sampled_from(STEPS),
        "ok": st.sampled_from([True, False, None, "yes", 1]),
        "method": st.sampled_from(["reset", "not_applicable"]),
    }
)


@given(st.lists(step, max_size=12), st.sets(st.sampled_from(STEPS)))
def test_a_proof_is_complete_only_when_every_step_is_there_and_every_report_of_it_is_good(
    steps: list[dict[str, object]], absent: set[str]
) -> None:
    missing = missing_steps(
        steps, required=STEPS, optional_when_absent={name: name in absent for name in STEPS}
    )

    def good(report: dict[str, object]) -> bool:
        if report["method"] == "not_applicable":
            return report["step"] in absent
        return report["ok"] is True

    complete = all(
        (reports := [s for s in steps if s["step"] == name]) and all(map(good, reports))
        for name in STEPS
    )
    assert (not missing) == complete
