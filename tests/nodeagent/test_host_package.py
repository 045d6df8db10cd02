"""Do the units hold, do the reference hooks do their work, is the agent's lock a part of ours?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.config import Hook, HostConfig
from nodeagent.host.hooks import Answer, Hooks

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "deploy" / "agent"
# By `systemd-analyze security`: 10 is no protection at all.
MOST_EXPOSED = {"gpuaas-agent": 2.0, "gpuaas-helper": 5.5}


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_a_unit_is_well_formed_and_hardened(name: str, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("NO UNIT WAS CHECKED: systemd-analyze is missing")
    text = (PACKAGE / "systemd" / f"{name}.service").read_text()
    unit = tmp_path / f"{name}.service"
    # Its program is not installed here.
    unit.write_text(text.replace("/opt/gpuaas-agent/bin/python", "/usr/bin/env"))
    for arguments in (
        ["verify", "--man=no", "--recursive-errors=no"],
        ["security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSED[name] * 10:g}"],
    ):
        ran = subprocess.run(
            [program, *arguments, str(unit)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout[-600:] + ran.stderr


def test_the_helper_starts_after_what_opens_gpus_at_boot_and_before_the_agent() -> None:
    lines = (PACKAGE / "systemd" / "gpuaas-helper.service").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines if line.startswith(("After=", "Before=")))
    assert told == {
        "After": "nvidia-persistenced.service nvidia-fabricmanager.service",
        "Before": "gpuaas-agent.service",
    }


def test_the_agents_folder_is_there_for_the_join_token_before_the_agent_has_run() -> None:
    folder = str(HostConfig.__dataclass_fields__["agent_folder"].default)
    made = [line for line in (PACKAGE / "install").read_text().splitlines() if folder in line]
    assert made == [f"install -d -m 0700 -o gpuaas-agent -g gpuaas-agent {folder}"]
    unit = (PACKAGE / "systemd" / "gpuaas-agent.service").read_text()
    assert "StateDirectoryMode=0700" in unit


def test_the_guide_has_each_step_before_what_needs_it() -> None:
    guide = (ROOT / "docs" / "agent-guide.md").read_text()
    recipe = guide.partition("## Install\n")[2].partition("## The helper's keys")[0]
    steps = [
        "gpuaas node create gpu-17",
        "deploy/agent/install ",
        "manage.py control_keys --node gpu-17 >",
        "control-keys.toml /etc/gpuaas-agent/",
        "gpuaas-agent check ",
        "gpuaas node join-token gpu-17",
        "/var/lib/gpuaas-agent/join-token",
        "systemctl enable --now",
    ]
    places = [recipe.index(step) for step in steps]
    assert places == sorted(places)


def test_the_agents_lock_has_the_products_versions_and_hashes() -> None:
    ours = (ROOT / "requirements.txt").read_text()
    for line in (PACKAGE / "requirements.txt").read_text().splitlines():
        name = line.partition("==")[0]
        if "==" in line:
            version = line.partition("==")[2].split(" ")[0]
            assert f"{name}=={version} " in ours
        elif line.strip().startswith("--hash"):
            assert line.strip().removesuffix(" \\") in ours


class Bmc(ThreadingHTTPServer):
    """A management controller with one system."""

    def __init__(self) -> None:
        self.power = "On"
        self.points_to = ""
        self.calls: list[tuple[str, str, Any]] = []
        super().__init__(("127.0.0.1", 0), BmcHandler)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}/redfish/v1/Systems/1"


class BmcHandler(BaseHTTPRequestHandler):
    """Its answers."""

    def _answer(self) -> None:
        assert isinstance(self.server, Bmc)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = json.loads(body) if body else None
        self.server.calls.append((self.command, self.path.rpartition("/")[2], told))
        allowed = self.headers["Authorization"] == "Basic b3BlcmF0b3I6c2VjcmV0"
        if told and "ResetType" in told:
            self.server.power = "On" if told["ResetType"] == "On" else "Off"
        content = json.dumps({"PowerState": self.server.power}).encode()
        if self.server.points_to:
            self.send_response(307)
            self.send_header("Location", self.server.points_to)
        else:
            self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = _answer

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests look at the calls."""


@contextmanager
def running() -> Iterator[Bmc]:
    """One that answers while inside."""
    server = Bmc()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def bmc() -> Iterator[Bmc]:
    """A running one."""
    with running() as server:
        yield server


class Site:
    """The reference hooks, installed for one node."""

    def __init__(self, folder: Path, bmc: Bmc) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {
            "redfish": bmc.address,
            "virtual_media": bmc.address.replace("Systems/1", "Managers/1/VirtualMedia/Cd"),
            "user": "operator",
            "password_file": str(folder / "password"),
            "host": "10.0.0.17",
            "images": {"ubuntu": "http://images/u.iso", "cleaning": "http://images/c.iso"},
            "seed_folder": str(folder / "seeds"),
            "isolate": ["/bin/echo", "gpu-17"],
        }
        (folder / "password").write_text("secret\n")
        names = ("provision", "power", "network", "sanitise", "burn_in")
        for name in names:
            text = (PACKAGE / "hooks" / name).read_text()
            assert text.startswith("#!/usr/bin/env python3\n")
            path = folder / name
            path.write_text(text.replace("/usr/bin/env python3", f"{sys.executable}", 1))
            path.chmod(0o755)
        shutil.copy(PACKAGE / "hooks" / "hooklib.py", folder)
        self.hooks = Hooks({name: Hook(folder / name, 30) for name in names})
        self.write()

    def write(self) -> None:
        """Put down what the site says of its node."""
        (self.folder / "site.json").write_text(json.dumps({"gpu-17": self.facts}))


@pytest.fixture
def site(tmp_path: Path, bmc: Bmc) -> Site:
    """The hooks."""
    return Site(tmp_path, bmc)


def test_a_host_is_turned_off_and_on_and_it_is_waited_for(site: Site, bmc: Bmc) -> None:
    assert site.hooks.call("power", "off", node="gpu-17").method == "redfish_power_off"
    assert bmc.power == "Off"
    assert site.hooks.call("power", "on", node="gpu-17").method == "redfish_power_on"
    assert bmc.power == "On"
    told = len(bmc.calls)
    site.hooks.call("power", "on", node="gpu-17")
    assert [one[0] for one in bmc.calls[told:]] == ["GET", "GET"]


def test_a_host_is_installed_from_its_image_with_the_tenants_seed(site: Site, bmc: Bmc) -> None:
    seed = {"user-data": "#cloud-config\n{}", "meta-data": "{}"}
    answer = site.hooks.call("provision", "install", node="gpu-17", image="ubuntu", seed=seed)
    assert answer.method == "redfish_virtual_media"
    assert (site.folder / "seeds" / "gpu-17" / "user-data").read_text() == seed["user-data"]
    assert bmc.power == "Off"
    assert ("POST", "VirtualMedia.InsertMedia", {"Image": "http://images/u.iso"}) in bmc.calls


@pytest.mark.parametrize(
    ("hook", "action", "arguments", "code"),
    [
        ("power", "explode", {}, "hook_refused"),
        ("provision", "install", {"image": "none", "seed": {}}, "hook_refused"),
        ("network", "attach", {"node": "gpu-18"}, "prerequisite_missing"),
        ("sanitise", "os_wiped", {"slot": {}}, "prerequisite_missing"),
    ],
)
def test_what_a_hook_cannot_do_is_told_by_its_status(
    site: Site, hook: str, action: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(BackendError) as error:
        site.hooks.call(hook, action, **{"node": "gpu-17", **arguments})
    assert error.value.code == code


def test_a_wrong_password_is_refused_and_not_tried_again(site: Site) -> None:
    (site.folder / "password").write_text("wrong")
    with pytest.raises(BackendError) as error:
        site.hooks.call("power", "off", node="gpu-17")
    assert (error.value.code, error.value.retryable) == ("hook_refused", False)
    assert "wrong" not in error.value.detail


def test_a_password_is_never_sent_in_the_clear_to_another_machine(site: Site) -> None:
    site.facts["redfish"] = "http://bmc-17/redfish/v1/Systems/1"
    site.write()
    with pytest.raises(BackendError, match="https only"):
        site.hooks.call("power", "off", node="gpu-17")


def test_a_login_is_not_taken_to_where_an_answer_points(site: Site, bmc: Bmc) -> None:
    with running() as other:
        bmc.points_to = other.address
        with pytest.raises(BackendError, match="not followed") as error:
            site.hooks.call("power", "off", node="gpu-17")
        assert (error.value.code, other.calls) == ("hook_refused", [])


def test_a_whole_host_is_isolated_by_the_sites_own_program(site: Site) -> None:
    attached = site.hooks.call("network", "attach", node="gpu-17", claim="c", hostname="t")
    assert (attached.method, attached.host()) == ("ports_attached", "10.0.0.17")
    assert site.hooks.call("network", "detach", node="gpu-17", claim="c").method == "ports_detached"
    del site.facts["isolate"]
    site.write()
    with pytest.raises(BackendError) as error:
        site.hooks.call("network", "detach", node="gpu-17", claim="c")
    assert error.value.code == "prerequisite_missing"


DCGMI = """#!{python} -SE
import json, time
open("{folder}/rounds", "a").write("x")
time.sleep({round_s})
print(json.dumps({{"tests": [{{"name": "stress", "results": [{{"status": "Pass"}}]}}]}}))
"""


def burnt(site: Site, *, round_s: float, told_s: float, duration_s: int, limit_s: int) -> Answer:
    """What the reference burn-in says where a round takes so long, and is said to at most."""
    program = site.folder / "dcgmi"
    program.write_text(DCGMI.format(python=sys.executable, folder=site.folder, round_s=round_s))
    program.chmod(0o755)
    site.facts |= {"dcgmi": str(program), "round_s": told_s}
    site.write()
    gpus = [{"uuid": "GPU-1", "pci": "0000:01:00.0", "index": 0}]
    asked: dict[str, Any] = {"gpus": gpus, "duration_s": duration_s, "limit_s": limit_s}
    return site.hooks.call("burn_in", "run", node="gpu-17", **asked)


def test_a_burn_in_goes_on_round_by_round_until_its_time_is_over(site: Site) -> None:
    answer = burnt(site, round_s=0.4, told_s=1, duration_s=1, limit_s=20)
    assert (answer.facts["verdict"], answer.facts["ran_s"]) == ("pass", 1)
    assert len((site.folder / "rounds").read_text()) > 1


def test_a_burn_in_begins_no_round_that_would_not_end_within_its_limit(site: Site) -> None:
    with pytest.raises(BackendError, match="order one of at most 2 seconds") as refused:
        burnt(site, round_s=2, told_s=1, duration_s=3, limit_s=8)
    assert (refused.value.code, (site.folder / "rounds").read_text()) == ("hook_refused", "x")
    with pytest.raises(BackendError, match="order a longer one"):
        burnt(site, round_s=0, told_s=600, duration_s=3, limit_s=8)
