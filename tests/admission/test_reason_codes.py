"""Is there a named test for every reason code that admission can give?"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from admission import errors as admission_errors
from gpuaas.kernel.errors import ProductError, Reason, catalogue
from placement.services.requests import ENDS_WITH_CAPACITY
from tenants.errors import QUOTA_REFUSALS
from tests.admission.test_gates import REFUSED

ROOT = Path(__file__).resolve().parents[2]
BY_TEST = {
    "policy_forbids": "admission/test_policy_rules.py::"
    "test_a_rule_decides_from_its_activation_to_its_retirement",
    "policy_broken": "admission/test_policy_rules.py::"
    "test_a_rule_broken_behind_our_back_closes_only_what_it_is_about",
    "policy_invalid": "admission/test_policy_rules.py::"
    "test_a_wrong_field_is_named_and_nothing_is_kept",
    "policy_tests_failed": "admission/test_policy_rules.py::"
    "test_a_rule_whose_own_tests_fail_is_not_even_tried_out",
    "forbidden_by_locality": "admission/test_workloads.py::"
    "test_a_workload_moves_only_after_the_new_place_works",
    "forbidden_by_topology": "placement/test_why_removed.py::"
    "test_slots_without_a_nic_of_their_own_are_too_few",
    "workload_state_refused": "admission/test_ends.py::"
    "test_a_workload_that_has_ended_takes_no_change",
    "request_ended": "admission/test_ends.py::test_what_was_admitted_cannot_be_withdrawn",
    "waiting_for_approval": "admission/test_changes.py::"
    "test_a_signup_is_a_request_that_waits_for_approval_and_is_admitted_with_it",
    "approval_refused": "admission/test_changes.py::"
    "test_a_signup_that_is_rejected_or_taken_back_says_so_on_its_request",
    "waiting_for_capacity": "admission/test_ends.py::"
    "test_a_request_without_room_waits_for_capacity_and_says_so",
    "too_many_waiting": "admission/test_ends.py::"
    "test_one_request_more_than_may_wait_is_refused_at_once",
    "tenant_not_admitting": "admission/test_ends.py::"
    "test_a_suspension_between_decision_and_placing_takes_nothing",
    "sku_unavailable": "admission/test_workloads.py::"
    "test_a_job_that_does_not_fit_as_a_whole_takes_nothing_and_says_how_much_would_fit",
}
"""Codes that the table of gates does not produce, and the test that does."""


def declared() -> set[str]:
    """Every code that admission declares, or passes on from the charge of quota and capacity."""
    found = {
        entry.code
        for entry in vars(admission_errors).values()
        if isinstance(entry, Reason)
        or (isinstance(entry, type) and issubclass(entry, ProductError) and entry.code)
    }
    return found | ENDS_WITH_CAPACITY | set(QUOTA_REFUSALS)


def produced() -> set[str]:
    """The codes of the table of gates, and those with a named test."""
    return {code for _, code, _, _ in REFUSED.values()} | set(BY_TEST)


def test_every_code_that_admission_can_give_has_a_test_that_produces_it() -> None:
    assert declared() - produced() == set()


@pytest.mark.parametrize("code", sorted(BY_TEST))
def test_the_named_test_exists_for(code: str) -> None:
    file, name = BY_TEST[code].split("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("code", sorted(produced()))
def test_the_catalogue_says_what_would_help_with(code: str) -> None:
    assert catalogue()[code].unblock.endswith(".")
