"""Is every reason code expected somewhere by a test, and not only mentioned?

A code counts where it, or its error class, stands in an ``assert``, in ``pytest.raises`` or in
``parametrize``: in a comment, a docstring or a name it does not. Codes that tests reach through
tables of their own are listed; a new code is not to join them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuaas.kernel.errors import ProductError, catalogue
from tests.architecture.tree import files, text

EXPECTING = {"raises", "parametrize"}
THROUGH_TABLES = frozenset(
    [
        "bad_request",
        "dataset_unknown",
        "drift_address_changed",
        "drift_boot_changed_under_claim",
        "drift_device_differs",
        "drift_device_missing",
        "drift_device_offered",
        "drift_device_unknown",
        "drift_making_stopped",
        "drift_not_comparable",
        "drift_observed_stale",
        "drift_release_stopped",
        "drift_released_but_present",
        "drift_residue",
        "drift_task_stuck",
        "drift_vm_elsewhere",
        "drift_vm_state",
        "drift_vm_unknown",
        "evidence_missing",
        "gpu_tenant_fault",
        "gpu_watched",
        "malformed_json",
        "memory_of_gpu",
        "method_not_allowed",
        "no_such_profile",
        "not_acceptable",
        "nothing_to_approve",
        "override_incomplete",
        "ssh_key_missing",
        "tier_not_allowed",
        "whole_node_free",
    ]
)
"""Codes that no test expects by name in one of these three ways."""


def _kinds(base: type[ProductError]) -> Iterator[type[ProductError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _expected(tree: ast.Module) -> Iterator[ast.AST]:
    """The parts of a test file that expect something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in EXPECTING
        ):
            yield from node.args


def expected() -> set[str]:
    """Every code that some test expects."""
    codes = set(catalogue())
    classes = {kind.__name__: kind.code for kind in _kinds(ProductError) if kind.code}
    found: set[str] = set()
    for name in files():
        if not (name.startswith("tests/") and name.endswith(".py")):
            continue
        for part in _expected(ast.parse(text(name))):
            for node in ast.walk(part):
                if isinstance(node, ast.Constant) and node.value in codes:
                    found.add(str(node.value))
                if isinstance(node, ast.Name) and node.id in classes:
                    found.add(classes[node.id])
    return found


def test_every_reason_code_is_expected_by_a_test_or_listed_as_not() -> None:
    assert sorted(set(catalogue()) - expected() - THROUGH_TABLES) == []


def test_the_list_names_only_codes_that_there_are() -> None:
    assert sorted(THROUGH_TABLES - set(catalogue())) == []
