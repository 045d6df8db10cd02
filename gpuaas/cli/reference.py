"""What does the printed reference of the command line say? `docs/cli.md`, made from the commands.

python -m gpuaas.cli.reference > docs/cli.md
"""

import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from gpuaas.cli.config import ENVIRONMENT
from gpuaas.cli.exits import MEANINGS
from gpuaas.cli.flags import PANEL
from gpuaas.cli.main import app

INTRODUCTION = """\
# Command line reference

Printed from the commands by `python -m gpuaas.cli.reference > docs/cli.md`; a test keeps it
current.

    gpuaas login --server https://gpu.example.org
    gpuaas offer
    gpuaas allocation create --sku h100-slice --slots 2 --wait
    gpuaas allocation explain NAME
    gpuaas allocation release NAME --yes --wait

Standard output carries data only; messages and progress go to standard error. `-o json` is the
server's own answer. Where an id is wanted, `kind/ID` (what `-o name` prints) is accepted too.
A setting is taken from the flag, else from the environment, else from the context file
`~/.config/gpuaas/config.yaml` (mode 0600; `XDG_CONFIG_HOME` is honoured). Secrets are never
flags: use `login`, a token file, or standard input (`-`). Each command that changes something
sends one idempotency key, the same on every retry, so a lost reply cannot make it happen twice.
"""


def reference(tree: typer.Typer = app) -> str:
    """The whole page as Markdown."""
    return "\n".join(_page(get_command(tree))) + "\n"


def _page(root: Any) -> Iterator[str]:
    yield INTRODUCTION
    yield "## Global options\n"
    yield "Accepted by every command, before and after the subcommand; the innermost one wins.\n"
    yield from _table(("option", "meaning"), [_option(p) for p in _options(root) if _is_global(p)])
    yield "\n## Exit codes\n"
    rows = [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]
    yield from _table(("code", "meaning"), rows)
    yield "\n## Environment\n"
    yield from _table(("variable", "meaning"), [(f"`{k}`", v) for k, v in ENVIRONMENT.items()])
    yield "\n## Commands"
    for name, command in root.commands.items():
        yield from _command(name, command)


def _command(path: str, command: Any) -> Iterator[str]:
    if command.hidden:
        return
    if hasattr(command, "commands"):
        yield f"\n### gpuaas {path}\n"
        yield _sentences(command.help)
        for name, inner in command.commands.items():
            yield from _command(f"{path} {name}", inner)
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    shown = " ".join(_argument(p) for p in arguments)
    yield f"\n#### `gpuaas {path}{' ' + shown if shown else ''}`\n"
    yield _sentences(command.help)
    own = [_option(p) for p in _options(command) if not _is_global(p)]
    described = [(f"`{_argument(p)}`", p.help) for p in arguments if p.help]
    if own or described:
        yield ""
        yield from _table(("option", "meaning"), described + own)


def _options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden]


def _is_global(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == PANEL


def _option(parameter: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    value = "" if parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
    needed = " Required." if parameter.required else ""
    return f"{names}{value}", f"{parameter.help or ''}{needed}"


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name).upper()
    # A choice such as bash|zsh|fish is typed as written.
    name = str(parameter.metavar) if "|" in str(parameter.metavar) else name
    return name if parameter.required else f"[{name}]"


def _sentences(text: str | None) -> str:
    return " ".join((text or "").split())


def _table(heading: tuple[str, str], rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {heading[0]} | {heading[1]} |"
    yield "|---|---|"
    for left, right in rows:
        yield f"| {left.replace('|', chr(92) + '|')} | {right.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
