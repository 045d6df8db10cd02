"""Do the pages point at what is there, and name what exists?"""

from __future__ import annotations

import re
from pathlib import Path

from gpuaas.kernel import errors
from tests.architecture.tree import ROOT, files, text

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)")
COMMAND = re.compile(r"manage\.py ([a-z_]+)")
TITLE = re.compile(r"^# (\d{4}) · (.+)$", re.M)


def pages() -> list[str]:
    """Every page that people read, but for those that are printed from code."""
    return [
        name
        for name in files()
        if name.endswith(".md") and (name == "README.md" or name.startswith("docs/"))
    ]


def test_every_link_leads_to_something() -> None:
    broken = [
        f"{name}: {target}"
        for name in pages()
        for target in LINK.findall(text(name))
        if not re.match(r"[a-z]+:", target) and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert broken == []


def test_every_decision_is_in_the_index_under_its_title() -> None:
    index = text("docs/decisions/README.md")
    wrong = []
    for name in files():
        if not re.fullmatch(r"docs/decisions/\d{4}-[a-z0-9-]+\.md", name):
            continue
        number, title = (TITLE.findall(text(name)) or [("", "")])[0]
        row = f"| [{number}]({Path(name).name}) | {title} |"
        if not Path(name).name.startswith(f"{number}-") or row not in index:
            wrong.append(name)
    assert wrong == []


def test_every_management_command_that_is_named_exists() -> None:
    ours = {
        Path(name).stem for name in files() if re.search(r"/management/commands/[a-z_]+\.py$", name)
    }
    django = {"migrate", "makemigrations", "check", "spectacular", "shell"}
    named = {(name, word) for name in pages() for word in COMMAND.findall(text(name))}
    assert sorted((n, w) for n, w in named if w not in ours | django) == []


def test_every_reason_in_the_tenant_guide_is_in_the_catalogue() -> None:
    table = text("docs/tenant-guide.md").split("## Refusals")[1].split("## ")[0]
    named = set(re.findall(r"^\| `([a-z_]+)`", table, re.M))
    assert named
    assert named - set(errors.catalogue()) == set()
