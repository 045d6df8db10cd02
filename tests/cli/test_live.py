"""Do the client and the real control plane understand each other, over real HTTP?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer
from typer.testing import CliRunner, Result

from gpuaas.cli.main import app
from gpuaas.kernel import clock
from placement.models import Node
from tests.api.client import an_operator, token_of
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_report, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery"


class Terminal:
    """A person at a terminal, with a home of their own."""

    def __init__(self, server: str, home: Path, token: str = "") -> None:
        self.environ = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": "",
            "GPUAAS_SERVER": server,
            "GPUAAS_TOKEN": token,
        }

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run the client in this process."""
        return CliRunner().invoke(app, list(arguments), input=stdin, env=self.environ)

    def json(self, *arguments: str) -> Any:
        """What a successful command answers as JSON."""
        result = self.run(*arguments, "-o", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the client as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "gpuaas.cli.main", *arguments],
            env={**self.environ, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def ended(process: subprocess.Popen[str], host: Host) -> tuple[int, str, str]:
    """How the process ended, while the host does what it is told."""
    deadline = time.monotonic() + 60
    try:
        while process.poll() is None and time.monotonic() < deadline:
            host.work()
            time.sleep(0.05)
        stdout, stderr = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    return process.returncode, stdout, stderr


@pytest.fixture
def world() -> TenantWorld:
    """A catalogue and a tenant."""
    a_catalogue()
    return a_tenant("acme", envelope_slots=6)


@pytest.fixture
def host(world: TenantWorld) -> Host:
    """A node of eight slots."""
    return a_host()


@pytest.fixture
def owner(world: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Terminal:
    """The tenant's owner, signed in by password."""
    terminal = Terminal(live_server.url, tmp_path)
    result = terminal.run(
        "login", "--email", world.owner.email, "--password-file", "-", stdin=f"{PASSWORD}\n"
    )
    assert result.exit_code == 0, result.output
    return terminal


@pytest.fixture
def operator(live_server: LiveServer, tmp_path: Path) -> Terminal:
    """A person of the platform, with a token from elsewhere."""
    return Terminal(live_server.url, tmp_path / "operator", token_of(an_operator()))


def test_a_lease_goes_from_offer_to_release(owner: Terminal, host: Host) -> None:
    offered = owner.run("offer", "--no-headers").stdout
    assert [line.split()[:1] for line in offered.splitlines()] == [["h100.node"], ["h100.slice"]]
    status, stdout, stderr = ended(
        owner.start(
            "allocation", "create", "--sku", "h100.slice", "--slots", "2", "--name", "train",
            "--wait", "--timeout", "50s",
        ),
        host,
    )  # fmt: skip
    assert status == 0, stderr
    assert "ssh -p 2222 ubuntu@127.0.0.1" in stdout
    assert "provision: done" in stderr
    assert "train" in owner.run("allocation", "list").stdout
    described = owner.run("allocation", "describe", "train").stdout
    assert "4.00" in described
    assert "Observed" in described
    explained = owner.run("allocation", "explain", "train").stdout
    assert explained.startswith("Decision  admit")
    assert "capacity" in explained
    assert owner.run("allocation", "timeline", "train").exit_code == 0
    status, stdout, stderr = ended(
        owner.start("allocation", "release", "train", "--yes", "--wait", "--timeout", "50s"), host
    )
    assert status == 0, stderr
    assert "released" in stdout


def test_a_refusal_carries_its_code_its_numbers_and_its_exit_code(
    owner: Terminal, host: Host
) -> None:
    over = owner.run("allocation", "create", "--sku", "h100.slice", "--slots", "7")
    assert over.exit_code == 6
    assert "error: envelope_exceeded" in over.stderr
    assert "numbers:" in over.stderr
    request = over.stderr.partition("gpuaas explain ")[2].split()[0]
    explained = owner.run("explain", request)
    assert explained.exit_code == 0
    assert "FAIL  envelope_exceeded" in explained.stdout


def test_what_does_not_fit_ends_with_seven_or_queues(
    owner: Terminal, host: Host, world: TenantWorld
) -> None:
    a_tenant("globex").order(slots=8)
    create = ("allocation", "create", "--sku", "h100.slice")
    assert owner.run(*create).exit_code == 7
    late = owner.run(*create, "--queue", "--timeout", "0.1s")
    assert late.exit_code == 8
    (waiting,) = owner.json("request", "list", "--state", "queued")
    withdrawn = owner.run("request", "withdraw", waiting["id"])
    assert withdrawn.exit_code == 0
    assert "withdrawn" in withdrawn.stdout


def test_every_reading_command_of_a_tenant_is_answered(owner: Terminal, host: Host) -> None:
    for command in (
        ("whoami",),
        ("doctor",),
        ("sku", "list"),
        ("sku", "describe", "h100.slice"),
        ("offer",),
        ("project", "list"),
        ("ssh-key", "list"),
        ("token", "list"),
        ("quota", "show"),
        ("allocation", "list", "--state", "active", "--all"),
        ("allocation", "plan", "--sku", "h100.slice", "--slots", "2"),
        ("request", "list"),
        ("operation", "list"),
        ("events", "--limit", "5"),
        ("api", "GET", "/images"),
    ):
        for form in ("table", "wide", "json", "yaml", "name"):
            result = owner.run(*command, "-o", form)
            assert result.exit_code == 0, (command, form, result.output)


def test_keys_tokens_and_projects_are_made_and_removed(owner: Terminal, host: Host) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtj3AqA4kC1qgcmYwPCqFrPOsNhMfPZlFAWUWPV6hoJ me\n"
    added = owner.run("ssh-key", "add", "laptop", "-", stdin=key)
    assert added.exit_code == 0, added.output
    assert owner.run("project", "create", "vision").exit_code == 0
    created = owner.run(
        "allocation", "create", "--sku", "h100.slice", "--ssh-key", "laptop", "-p", "vision"
    )
    assert created.exit_code == 0, created.output
    assert owner.run("ssh-key", "delete", "laptop", "--yes").exit_code == 0
    made = owner.json("token", "create", "ci", "--expires-in-days", "1")
    assert made["token"].startswith("gpuaas_pat_")
    assert owner.run("token", "revoke", "ci", "--yes").exit_code == 0
    assert "ci" not in owner.run("token", "list", "--columns", "name").stdout.split()


def test_signing_out_ends_the_token(owner: Terminal) -> None:
    assert owner.run("logout").exit_code == 0
    assert owner.run("whoami").exit_code == 4


def test_an_operator_sees_and_drains_a_node(operator: Terminal, host: Host) -> None:
    report = a_report("host-1").to_json()
    Node.objects.update(topology=report, topology_at=clock.db_now())
    assert "fully_available" in operator.run("node", "list").stdout
    drawn = operator.run("node", "topology", "host-1")
    assert drawn.exit_code == 0, drawn.output
    assert "8 slots (8 free)" in drawn.stdout
    drained = operator.run("node", "drain", "host-1", "--reason", "fan swap")
    assert drained.exit_code == 0, drained.output
    assert "fan swap" in drained.stdout
    assert "8 draining" in operator.run("node", "topology", "host-1").stdout
    assert operator.run("node", "undrain", "host-1", "--reason", "done").exit_code == 0
    for command in (("describe", "host-1"), ("tasks", "host-1"), ("join-token", "host-1")):
        result = operator.run("node", *command)
        assert result.exit_code == 0, result.output


def test_an_operator_suspends_and_resumes_a_tenant(
    operator: Terminal, owner: Terminal, host: Host
) -> None:
    suspended = operator.run("tenant", "suspend", "acme", "--reason", "unpaid", "--yes")
    assert suspended.exit_code == 0, suspended.output
    assert owner.run("allocation", "create", "--sku", "h100.slice").exit_code == 6
    assert operator.run("tenant", "resume", "acme", "--reason", "paid").exit_code == 0
    assert owner.run("allocation", "create", "--sku", "h100.slice").exit_code == 0
    assert "acme" in operator.run("tenant", "list", "--state", "active").stdout


def test_a_tenant_may_not_do_what_operators_do(owner: Terminal, host: Host) -> None:
    result = owner.run("node", "drain", "host-1", "--reason", "mischief")
    assert result.exit_code in {3, 4}
    assert host.fresh().schedulable
