"""Is every reason code produced and expected somewhere by a test, and not only mentioned?

A code counts where it, or its error class, stands in an ``assert``, in ``pytest.raises`` or in
``parametrize`` of a test that works on the database: in a comment, a docstring, a name, a table
of a pure function's cases, or an expression that lists many codes, it does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuaas.kernel.errors import ProductError, catalogue
from tests.architecture.tree import parsed, python_files, text

EXPECTING = {"raises", "parametrize"}
MOST = 6
"""An expression or a row with more codes than this lists them, and produces none."""
ROOMS = ("tests/portal/", "tests/console/", "tests/browser/", "tests/flows/")
"""Folders whose tests work on the database through the fixtures that they share."""


def _kinds(base: type[ProductError]) -> Iterator[type[ProductError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _expectations(tree: ast.Module) -> Iterator[ast.expr]:
    """What a test file expects, one expression, or one row of a table, at a time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in EXPECTING
        ):
            for part in node.args:
                yield from part.elts if isinstance(part, ast.List | ast.Tuple) else [part]


def _produces(name: str) -> bool:
    """Whether a file's tests can produce a code, since they work on the database."""
    return name.startswith("tests/") and (name.startswith(ROOMS) or "django_db" in text(name))


def expected() -> set[str]:
    """Every code that some test produces and expects."""
    codes = set(catalogue())
    classes = {kind.__name__: kind.code for kind in _kinds(ProductError) if kind.code}
    found: set[str] = set()
    for name in filter(_produces, python_files()):
        for part in _expectations(parsed(name)):
            here: set[str] = set()
            for node in ast.walk(part):
                if isinstance(node, ast.Constant) and node.value in codes:
                    here.add(str(node.value))
                if isinstance(node, ast.Name) and node.id in classes:
                    here.add(classes[node.id])
            if len(here) <= MOST:
                found |= here
    return found


def test_every_reason_code_is_produced_and_expected_by_a_test() -> None:
    assert sorted(set(catalogue()) - expected()) == []
