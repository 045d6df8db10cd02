"""Which values does an expression such as `{.items[*].name}` pick out of an answer?

A template as kubectl users write it: text, and paths in braces. A path is made of `.member`,
`[3]`, `[-1]`, `[*]` and `["a member"]`; without braces the whole expression is one path. Values
of one path are parted by spaces; what is no text, number or flag is written as JSON. A path that
leads nowhere picks nothing.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuaas.cli.problems import UsageError

_STEP = re.compile(
    r"""\.(?P<member>[\w-]+)|\[(?:(?P<at>-?\d{1,9})|(?P<all>\*)|(["'])(?P<quoted>.*?)\4)\]"""
)
_ESCAPES = {r"\n": "\n", r"\t": "\t"}
_HINT = "such as {.items[*].name}, or .name of one object"


def picked(template: str, answer: Any) -> str:
    """The text that the template makes of an answer. Raises UsageError."""
    if "{" not in template:
        return _path(template, answer)
    shown = []
    for part in re.split(r"(\{[^{}]*\})", template):
        if part.startswith("{") and part.endswith("}"):
            shown.append(_path(part[1:-1].strip(), answer))
        elif "{" in part or "}" in part:
            raise UsageError(f"{template!r} is no template: a brace is open", hint=_HINT)
        else:
            shown.append(re.sub(r"\\[nt]", lambda found: _ESCAPES[found[0]], part))
    return "".join(shown)


def _path(path: str, answer: Any) -> str:
    if len(path) > 1 and path[0] in "\"'" and path[-1] == path[0]:
        return re.sub(r"\\[nt]", lambda found: _ESCAPES[found[0]], path[1:-1])
    rest = path.removeprefix("$").removeprefix("@")
    rest = rest if rest.startswith((".", "[")) or not rest else f".{rest}"
    found = [answer]
    while rest and rest != ".":
        step = _STEP.match(rest)
        if step is None:
            raise UsageError(f"{path!r} is no path from {rest!r} on", hint=_HINT)
        found = [inner for one in found for inner in _taken(one, step)]
        rest = rest[step.end() :]
    return " ".join(one if isinstance(one, str) else json.dumps(one) for one in found)


def _taken(value: Any, step: re.Match[str]) -> list[Any]:
    if step["all"]:
        return list(value.values() if isinstance(value, Mapping) else _rows(value))
    if step["at"]:
        rows, at = _rows(value), int(step["at"])
        return rows[at : at + 1 or None] if -len(rows) <= at < len(rows) else []
    name = step["member"] or step["quoted"] or ""
    return [value[name]] if isinstance(value, Mapping) and name in value else []


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
