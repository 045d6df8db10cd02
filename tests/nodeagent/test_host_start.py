"""Does an operator who has left something wrong read one line about it, and never a traceback?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def start(folder: Path, command: str, *, given: str = "", **settings: str) -> tuple[int, str, str]:
    """Status, output and errors of a command that ends by itself."""
    place = {name: str(folder / name) for name in ("agent", "helper", "run")}
    lines = [f'{name}_folder = "{path}"' for name, path in place.items()]
    lines += [f'{name} = "{value}"' for name, value in settings.items()]
    text = '[agent]\nserver = "http://127.0.0.1:9"\nname = "gpu-1"\nmetrics_port = 0\n'
    (folder / "agent.toml").write_text(text + "\n".join(lines) + "\n")
    ran = subprocess.run(
        [sys.executable, "-m", "nodeagent.host", command, "--config", str(folder / "agent.toml")],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("command", "place", "content", "said"),
    [
        ("agent", "agent", "a file", "must be able to write"),
        ("agent", "agent/agent.key", "short", "agent.key is no key"),
        ("agent", "agent/agent.key/x", "", "must be able to write"),
        ("agent", "agent/journal.jsonl/x", "", "must be able to write"),
        ("agent", "agent/.lock/x", "", "must be able to write"),
        ("helper", "helper", "a file", "the helper runs as root"),
        ("helper", "run", "a file", "the helper runs as root"),
        ("helper", "helper/.lock/x", "", "the helper runs as root"),
    ],
)
def test_a_folder_of_no_use_is_one_line_with_the_way_out(
    tmp_path: Path, command: str, place: str, content: str, said: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    status, output, errors = start(tmp_path, command)
    assert (status, output) == (2, "")
    assert "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last


def test_an_authority_of_no_use_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    status, _, errors = start(tmp_path, "agent", ca_file=str(tmp_path / "ca.pem"))
    assert status == 2
    assert errors.splitlines()[-1].startswith("error: agent.ca_file")
    assert "Traceback" not in errors


def test_a_check_writes_nothing_whoever_runs_it(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    status, output, errors = start(tmp_path, "check", root=str(tmp_path / "root"))
    assert (status, "Traceback" in errors) == (0, False)
    assert json.loads(output)["gpus"] == 0
    assert sorted(os.listdir(tmp_path)) == ["agent.toml", "root"]


@pytest.mark.parametrize("given", ["", "{", "[]", '{"action": "rm -rf /"}', '{"action": 7}'])
def test_a_step_that_is_none_is_one_line(tmp_path: Path, given: str) -> None:
    status, output, errors = start(tmp_path, "clean-step", given=given)
    assert (status, output) == (1, "")
    assert errors.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in errors
