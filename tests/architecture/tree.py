"""Which files are ours?  What git tracks or would track, read and parsed once."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# From the floor up; a model may point at its own app and at those before it.
STACK = ("kernel", "tenants", "admission", "placement", "runtime_enforcement")
OWN = frozenset({"gpuaas", "tenants", "admission", "placement", "runtime_enforcement", "nodeagent"})


@cache
def files() -> tuple[str, ...]:
    """Paths from the root, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return tuple(sorted({name for name in listed if (ROOT / name).is_file()}))


@cache
def text(name: str) -> str:
    """The content; '' for what is not text."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def parsed(name: str) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(text(name), filename=name)


def product_code() -> list[str]:
    """Python files of the product: no tests, benchmarks, scripts or migrations."""
    return [
        name
        for name in files()
        if name.endswith(".py") and name.split("/")[0] in OWN and "/migrations/" not in name
    ]


def python_files() -> list[str]:
    """All our Python files."""
    return [name for name in files() if name.endswith(".py")]
