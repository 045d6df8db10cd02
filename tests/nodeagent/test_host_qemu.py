"""Does a real machine boot with the tenant's key, outlive the agent, and go with proof?"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeagent.host.qmp import connected, run_state
from nodeagent.host.runtime.kvm import probe
from nodeagent.protocol import REQUIRED_CLEANUP_STEPS, TaskKind
from tests.nodeagent.guest import QEMU, Console, kernel_tree, write_guest
from tests.nodeagent.host_stage import KEY, HostStage, host_stage, until

pytestmark = [pytest.mark.qemu, pytest.mark.slow]


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host with QEMU and an image that boots, its two halves running.

    Where the tests are root's, machines run as somebody who may do nothing else.
    """
    tree = kernel_tree()
    user = "nobody" if os.geteuid() == 0 else ""
    with tempfile.TemporaryDirectory(prefix="guest-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        image = write_guest(tree, Path(name) / "image")
        with host_stage(qemu=QEMU, image=image, vm=f'user = "{user}"') as made:
            made.start_helper()
            made.start_agent()
            yield made


@contextmanager
def console_of(stage: HostStage, claim: str) -> Iterator[Console]:
    """The machine's serial console."""
    console = Console(stage.folder / "run" / "machines" / claim / "console.sock")
    try:
        yield console
    finally:
        console.close()


def test_a_guest_runs_in_the_emulator_and_kvm_is_told_by_booting() -> None:
    kernel_tree()
    assert probe(QEMU, "tcg").works
    kvm = probe(QEMU, "kvm")
    assert kvm.works or kvm.detail


def test_whether_a_guest_runs_is_asked_as_machines_are_run() -> None:
    kernel_tree()
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT runs a machine as another user")
    assert probe(QEMU, "tcg", "nobody").works
    unknown = probe(QEMU, "tcg", "no-such-account")
    assert (unknown.works, unknown.detail) == (
        False,
        "tcg: there is no account no-such-account (vm.user)",
    )
    device = Path("/dev/kvm")
    if device.exists() and not device.stat().st_mode & 0o006:
        assert not probe(QEMU, "kvm", "nobody").works, "whatever root may"


def test_a_machine_has_the_tenants_key_outlives_the_agent_and_is_released_with_proof(
    stage: HostStage,
) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0, 1), "make")
    machine = stage.machine("alloc-1")
    assert machine is not None
    rooted = os.geteuid() == 0
    assert machine.uid == (70_000 if rooted else os.geteuid())
    sockets = (stage.folder / "run" / "machines" / "alloc-1").stat()
    assert (sockets.st_uid, sockets.st_mode & 0o777) == (machine.uid, 0o700)
    with console_of(stage, "alloc-1") as console:
        console.ask("echo up $((20 + 1))", "up 21")
        # Asked once: of a second answer only the end may be heard.
        console.say("cat /mnt/user-data; echo; echo over $((40 + 2))")
        heard = console.expect("over 42", 60.0)
        assert KEY in heard
        seed = json.loads(heard[heard.index("{\n") : heard.index("\n}\n") + 2])
        assert seed["users"][0]["ssh_authorized_keys"] == [KEY]
        assert seed["hostname"] == "tenant"
        heard = console.ask("cat /found", "slot1: []")
        assert "found on slot0: []" in heard
        assert stage.traces() == [0, 1]

        stage.kill_agent()
        stage.kill_helper()
        assert stage.machine("alloc-1") == machine
        stage.start_helper()
        stage.start_agent()
        seen = len(stage.control.observed)
        assert until(lambda: len(stage.control.observed) > seen)
        vm = stage.control.observed[-1].vms[0]
        assert (vm.claim_ref, vm.name, vm.state) == ("alloc-1", "gpuaas-alloc-1", "running")
        stage.done(TaskKind.VM_PROVISION, stage.provision(0, 1), "make", epoch=2)
        assert stage.machine("alloc-1") == machine
        console.ask("echo still $((40 + 2))", "still 42")
        with connected(stage.folder / "run" / "machines" / "alloc-1" / "qmp.sock") as qmp:
            assert run_state(qmp) == "running"

    stage.done(TaskKind.VM_RELEASE, stage.release(0, 1), "end")
    assert stage.machine("alloc-1") is None
    assert stage.records == []
    assert stage.traces() == []
    gone = stage.control.completed[-1][1].evidence[0].steps[0].detail
    assert ("nothing runs as its user 70000" in gone) is rooted
    evidence = stage.control.completed[-1][1].evidence
    required = [step.value for step in REQUIRED_CLEANUP_STEPS[TaskKind.VM_RELEASE]]
    assert [[step.step for step in slot.steps if step.ok] for slot in evidence] == [required] * 2
    assert until(lambda: stage.control.observed[-1].vms == ())


def test_the_next_tenants_guest_finds_nothing_of_the_one_before(stage: HostStage) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(3), "make")
    with console_of(stage, "alloc-1") as console:
        console.ask("cat /found", "slot3: []")
    assert stage.traces() == [3]
    stage.done(TaskKind.VM_RELEASE, stage.release(3), "end")
    stage.done(TaskKind.VM_PROVISION, stage.provision(3, allocation="alloc-2"), "again")
    with console_of(stage, "alloc-2") as console:
        console.ask("cat /found", "slot3: []")


def test_a_machine_that_its_tenant_shuts_down_is_seen_as_stopped(stage: HostStage) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(5), "make")
    with console_of(stage, "alloc-1") as console:
        console.ask("cat /found", "slot5: []")
        # Not hung up before it is heard.
        console.say("poweroff -f")
        assert until(lambda: stage.machine("alloc-1") is None)
    assert until(lambda: [vm.state for vm in stage.control.observed[-1].vms] == ["stopped"])
    stage.done(TaskKind.VM_RELEASE, stage.release(5), "end")
    assert stage.traces() == []
