"""Is each verb of the command line run by some test against a real control plane?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from gpuaas.cli.main import app
from tests.architecture.tree import parsed, python_files, text

LIVE = ("live_server", "Terminal")
"""What a file that has a real server in it mentions."""


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something, as the words that name it."""
    if command.hidden:
        return
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, one in inner.items():
        yield from verbs(one, (*path, name))


def _words(node: ast.AST) -> list[str]:
    """The words of a command as a test writes it: apart, or in one line."""
    if isinstance(node, ast.Call | ast.Tuple):
        parts = node.args if isinstance(node, ast.Call) else node.elts
        return [
            str(one.value) if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
            for one in parts
        ]
    line = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    if isinstance(line, ast.Constant) and isinstance(line.value, str) and len(line.value) < 300:
        return line.value.split()
    return []


def run_live() -> set[tuple[str, ...]]:
    """Every beginning of a command that stands in a test with a real server."""
    found: set[tuple[str, ...]] = set()
    for name in python_files():
        if not name.startswith("tests/") or not any(word in text(name) for word in LIVE):
            continue
        if name.startswith("tests/architecture/"):
            continue
        for node in ast.walk(parsed(name)):
            words = _words(node)
            found |= {tuple(words[k : k + n]) for k in range(len(words)) for n in (1, 2)}
    return found


def test_every_verb_is_run_by_a_test_against_a_real_control_plane() -> None:
    assert sorted(" ".join(verb) for verb in set(verbs(get_command(app))) - run_live()) == []
