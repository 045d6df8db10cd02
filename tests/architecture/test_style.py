"""Does every file keep the house rules that a linter does not know?"""

import ast
import re
from collections.abc import Iterator

from tests.architecture.tree import OWN, files, parsed, product_code, python_files, text

LONGEST_FILE = 500
# Only these may ask the machine for the time or make ids; the others take them from there.
CLOCKS = frozenset(
    {
        "gpuaas/kernel/clock.py",
        "gpuaas/kernel/ids.py",
        "nodeagent/clock.py",
    }
)
# The client tool stands alone on somebody's machine: it shows ages and makes request keys.
CLIENT = "gpuaas/cli/"
CLOCK_CALLS = frozenset(
    {
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("datetime", "today"),
        ("date", "today"),
        ("time", "time"),
        ("time", "time_ns"),
        ("timezone", "now"),
        ("uuid", "uuid1"),
        ("uuid", "uuid4"),
        ("uuid", "uuid7"),
    }
)
# A host cannot reach the kernel's ids, and what it names (a boot, a machine) is random anyway.
HOST_CALLS = frozenset({("uuid", "uuid4")})
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_is_longer_than_five_hundred_lines() -> None:
    """Migrations are written by Django, who does not count."""
    written = [name for name in python_files() if "/migrations/" not in name]
    long = {name: text(name).count("\n") for name in written}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_FILE} == {}


def test_every_module_opens_with_the_question_it_answers() -> None:
    silent = [
        name
        for name in product_code()
        if text(name).strip() and ast.get_docstring(parsed(name)) is None
    ]
    assert silent == []


def test_own_code_is_imported_at_the_top_of_a_file_only() -> None:
    hidden = []
    for name in product_code():
        for function in functions(parsed(name)):
            for node in ast.walk(function):
                modules: list[str] = []
                if isinstance(node, ast.ImportFrom):
                    modules = [node.module or ""]
                elif isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                if any(module.split(".")[0] in OWN for module in modules):
                    hidden.append(f"{name}:{node.lineno}")  # type: ignore[attr-defined]  # a statement
    assert hidden == []


def test_time_and_ids_come_from_their_one_place() -> None:
    strays = []
    for name in product_code():
        if name in CLOCKS or name.startswith(CLIENT):
            continue
        banned = CLOCK_CALLS - HOST_CALLS if name.startswith("nodeagent/") else CLOCK_CALLS
        for node in ast.walk(parsed(name)):
            if isinstance(node, ast.ImportFrom):
                found = {(node.module or "", alias.name) for alias in node.names} & banned
                strays += [f"{name}:{node.lineno} {'.'.join(pair)}" for pair in found]
            if isinstance(node, ast.Attribute):
                owner = node.value
                word = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
                if (word, node.attr) in banned:
                    strays.append(f"{name}:{node.lineno} {word}.{node.attr}")
    assert strays == []


def test_nothing_is_left_unfinished() -> None:
    left = [
        f"{name}:{number}"
        for name in product_code()
        for number, line in enumerate(text(name).splitlines(), 1)
        if UNFINISHED.search(line) or "raise NotImplementedError" in line
    ]
    assert left == []


def test_every_test_can_fail() -> None:
    visible = re.compile(r"assert|raises|expect|check|verify|run_state_machine|fail\(|want")
    blind = []
    for name in python_files():
        if not name.startswith("tests/"):
            continue
        for function in functions(parsed(name)):
            source = ast.get_source_segment(text(name), function) or ""
            if function.name.startswith("test_") and not visible.search(source):
                blind.append(f"{name}:{function.lineno}")
    assert blind == []


def test_no_handler_is_wired_by_signals() -> None:
    """News between our apps are events with a handler table, never Django signals."""
    wired = [
        name
        for name in product_code()
        if re.search(r"^\s*@receiver\(|\b(post|pre)_save\.connect\(", text(name), re.M)
    ]
    assert wired == []


def test_every_ignored_type_error_says_which_and_why() -> None:
    mark = "# type: " + "ignore"
    explained = re.compile(mark + r"\[[a-z, -]+\]\s+# \S")
    bare = [
        f"{name}:{number}"
        for name in files()
        if name.endswith(".py")
        for number, line in enumerate(text(name).splitlines(), 1)
        if mark in line and not explained.search(line)
    ]
    assert bare == []
