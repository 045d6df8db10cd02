"""Do package, command line tool, API document and agent say the same version?"""

import tomllib
from pathlib import Path

import yaml
from django.conf import settings

from gpuaas.config import Config
from gpuaas.version import VERSION, checked_out
from nodeagent.protocol import AGENT_VERSION
from tests.architecture.tree import ROOT


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gpuaas.version.VERSION"}
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    said = {
        document["info"]["version"],
        settings.SPECTACULAR_SETTINGS["VERSION"],
        AGENT_VERSION,
        VERSION,
    }
    assert said == {VERSION}


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def a_checkout(folder: Path, **files: str) -> Path:
    """A folder with these files of git's, a slash written as two underscores."""
    for name, content in files.items():
        path = folder / ".git" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def test_the_commit_is_read_from_a_branch_from_packed_refs_and_from_a_bare_head(
    tmp_path: Path,
) -> None:
    on_branch = a_checkout(
        tmp_path / "a", HEAD="ref: refs/heads/main\n", refs__heads__main=f"{COMMIT}\n"
    )
    packed = a_checkout(
        tmp_path / "b",
        HEAD="ref: refs/heads/main\n",
        **{"packed-refs": f"# pack-refs with: peeled\n{COMMIT} refs/heads/main\n"},
    )
    detached = a_checkout(tmp_path / "c", HEAD=f"{COMMIT}\n")
    assert [checked_out(one) for one in (on_branch, packed, detached)] == [COMMIT] * 3


def test_a_work_tree_beside_its_repository_tells_its_own_commit(tmp_path: Path) -> None:
    a_checkout(
        tmp_path / "main",
        refs__heads__side=f"{COMMIT}\n",
        worktrees__side__HEAD="ref: refs/heads/side\n",
        worktrees__side__commondir="../..\n",
    )
    side = tmp_path / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/side\n", encoding="utf-8")
    assert checked_out(side) == COMMIT


def test_what_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    odd = a_checkout(tmp_path / "odd", HEAD="ref: refs/heads/none\n")
    strange = a_checkout(tmp_path / "strange", HEAD="<script>\n")
    assert [checked_out(one) for one in (tmp_path, odd, strange)] == ["", "", ""]


def test_who_builds_it_says_the_commit() -> None:
    assert Config.from_env({"GPUAAS_COMMIT": COMMIT}).commit == COMMIT
    assert Config.from_env({}).commit
