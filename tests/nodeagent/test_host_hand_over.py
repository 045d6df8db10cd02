"""Can a machine that was taken over choose what root hands to it, or writes, the next time?"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.cleanup.stand_in import StandInDevices
from nodeagent.host.config import HostConfig, Image, NetworkKind, Tools, VmConfig
from nodeagent.host.hooks import Hooks
from nodeagent.host.records import SLICE, Tenancy
from nodeagent.host.runtime import process
from nodeagent.host.runtime.machines import Machines
from nodeagent.host.runtime.owners import Owner, Owners
from nodeagent.protocol import TopologyReport
from tests.nodeagent.host_stage import FAKE_XORRISO, KEY, until

CLAIM = "alloc-1"
MACHINES_USER = "nobody"
OWN = 70_003
DISK_MAKER = '#!/bin/sh\nshift $(($# - 2))\nprintf disk >"$1"\n'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands files over")


def no_report() -> TopologyReport:
    """Stand-ins need none."""
    raise AssertionError


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    """Machines that run as another user, with small programs in place of the disk makers."""
    tools = {"qemu_img": DISK_MAKER, "xorriso": FAKE_XORRISO}
    for name, body in tools.items():
        (tmp_path / name).write_text(body)
        (tmp_path / name).chmod(0o755)
    config = HostConfig(
        server="https://control.example.org",
        name="host-1",
        helper_folder=tmp_path / "helper",
        run_folder=tmp_path / "run",
        vm=VmConfig(user=MACHINES_USER, network=NetworkKind.LOOPBACK),
        tools=replace(Tools(), **{name: tmp_path / name for name in tools}),
        images={"base": Image("base", user="ubuntu", disk=tmp_path / "base.img")},
    )
    devices = StandInDevices(tmp_path / "stand-ins")
    owners = Owners(config.vm)
    return Machines(config, no_report, devices, Hooks({}), owners, accelerated=False)


def a_tenancy() -> Tenancy:
    """A claim on no slot: this is about its files."""
    return Tenancy(CLAIM, SLICE, "base", "vm-1", "ubuntu", (KEY,), (), "boot-id-1", 0, uid=OWN)


def unkept(_: Tenancy) -> None:
    """These have no GPU to note."""


def folder_of(tmp_path: Path) -> Path:
    """Where the claim's disks are."""
    return tmp_path / "helper" / "machines" / CLAIM


def a_file_of_roots(tmp_path: Path) -> Path:
    """What nobody but root may change."""
    path = tmp_path / "shadow"
    path.write_text("of root")
    path.chmod(0o600)
    return path


def unchanged(path: Path) -> bool:
    """Whether it is root's, and as it was."""
    return path.stat().st_uid == 0 and path.read_text() == "of root"


def test_a_machine_gets_its_disks_and_not_their_folder(machines: Machines, tmp_path: Path) -> None:
    machines.prepare(a_tenancy(), unkept)
    folder = folder_of(tmp_path)
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
    for name in ("disk.qcow2", "seed.iso"):
        found = (folder / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (OWN, OWN, 0o600)


@pytest.mark.parametrize("name", ["disk.qcow2", "other"])
def test_what_a_link_points_to_is_not_handed_over(
    machines: Machines, tmp_path: Path, name: str
) -> None:
    machines.prepare(a_tenancy(), unkept)
    secret = a_file_of_roots(tmp_path)
    (folder_of(tmp_path) / name).unlink(missing_ok=True)
    (folder_of(tmp_path) / name).symlink_to(secret)
    if name == "disk.qcow2":
        with pytest.raises(BackendError, match="not a plain file"):
            machines.prepare(a_tenancy(), unkept)
    else:
        machines.prepare(a_tenancy(), unkept)
    assert unchanged(secret)


def test_a_second_name_of_a_file_is_not_handed_over(machines: Machines, tmp_path: Path) -> None:
    machines.prepare(a_tenancy(), unkept)
    secret = a_file_of_roots(tmp_path)
    (folder_of(tmp_path) / "disk.qcow2").unlink()
    os.link(secret, folder_of(tmp_path) / "disk.qcow2")
    with pytest.raises(BackendError, match="of its own"):
        machines.prepare(a_tenancy(), unkept)
    assert unchanged(secret)


def test_a_new_disk_is_not_written_through_a_link(machines: Machines, tmp_path: Path) -> None:
    secret = a_file_of_roots(tmp_path)
    folder_of(tmp_path).mkdir(parents=True)
    (folder_of(tmp_path) / "disk.new").symlink_to(secret)
    machines.prepare(a_tenancy(), unkept)
    assert unchanged(secret)
    assert (folder_of(tmp_path) / "disk.qcow2").read_text() == "disk"


def test_each_machine_gets_a_user_that_no_record_account_or_process_has(tmp_path: Path) -> None:
    config = VmConfig(user=MACHINES_USER, uid_first=OWN, uid_count=3)
    owners = Owners(config)
    assert [owners.choose(taken) for taken in (set(), {OWN}, {OWN, OWN + 1})] == [
        OWN,
        OWN + 1,
        OWN + 2,
    ]
    with pytest.raises(BackendError, match="70003 to 70005 has a machine"):
        owners.choose({OWN, OWN + 1, OWN + 2})
    left_behind = subprocess.Popen(["/bin/sleep", "60"], user=OWN, group=OWN, extra_groups=[])
    try:
        assert owners.choose(set()) == OWN + 1
        assert process.end_user(OWN) == []
        assert left_behind.wait() == -signal.SIGKILL
        assert owners.choose(set()) == OWN
    finally:
        left_behind.kill()
        left_behind.wait()
    assert Owners(replace(config, uid_first=pwd.getpwnam("nobody").pw_uid)).choose(set()) == 65535


def test_a_machine_from_before_keeps_the_accounts_user() -> None:
    account = pwd.getpwnam(MACHINES_USER)
    owners = Owners(VmConfig(user=MACHINES_USER))
    assert owners.of(-1) == Owner(account.pw_uid, account.pw_gid, (account.pw_gid,))
    assert owners.of(OWN) == Owner(OWN, OWN, (account.pw_gid,))
    assert Owners(VmConfig()).of(-1) is None
    assert Owners(VmConfig()).choose(set()) == -1


def test_another_users_process_is_not_taken_for_a_machine(tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "read end", "-name", "guest=gpuaas-x"]
    argv += ["-uuid", "the-uuid", "/run/mark/qmp.sock"]
    posing = subprocess.Popen(
        argv, user=OWN + 1, group=OWN + 1, extra_groups=[], stdin=subprocess.PIPE
    )
    try:
        assert until(lambda: process.find("the-uuid", "/run/mark/", OWN + 1) is not None)
        assert process.find("the-uuid", "/run/mark/", OWN) is None
    finally:
        posing.communicate(b"\n", timeout=10)


def test_a_thread_that_is_not_the_machines_own_is_not_pinned(tmp_path: Path) -> None:
    mine = process.Machine(os.getpid(), 0, ())
    other = os.getppid()
    before = os.sched_getaffinity(other), os.sched_getaffinity(0)
    server = a_qmp_that_names(tmp_path / "qmp.sock", [os.getpid(), other])
    with pytest.raises(process.StartFailed, match="which is not its own"):
        process.go(mine, tmp_path / "qmp.sock", [0, 0])
    server.join(10)
    assert (os.sched_getaffinity(other), os.sched_getaffinity(0)) == before
    server = a_qmp_that_names(tmp_path / "other.sock", [os.getpid()])
    with pytest.raises(process.StartFailed, match="1 virtual CPUs instead of 2"):
        process.go(mine, tmp_path / "other.sock", [0, 0])
    server.join(10)


def a_qmp_that_names(path: Path, threads: list[int]) -> threading.Thread:
    """A QEMU whose guest has taken it over and names these threads as its CPUs."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def answer() -> None:
        channel, _ = listener.accept()
        with listener, channel, channel.makefile("rwb") as stream:
            stream.write(b'{"QMP": {}}\n')
            stream.flush()
            for line in stream:
                asked = json.loads(line)["execute"]
                said: object = {}
                if asked == "query-status":
                    said = {"status": "prelaunch"}
                elif asked == "query-cpus-fast":
                    said = [{"thread-id": one} for one in threads]
                stream.write(json.dumps({"return": said}).encode() + b"\n")
                stream.flush()

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_machine_that_takes_its_time_is_waited_for_and_one_that_never_answers_is_ended(
    tmp_path: Path,
) -> None:
    program = tmp_path / "qemu-system-slow"
    uuid, late = "6d3d9a3e-1c38-5f5e-9a07-3f3f2f7d5a11", 1.5
    fake = Path(__file__).with_name("fake_qemu.py")
    program.write_text(
        f"#!{sys.executable}\nimport runpy, time\ntime.sleep({late})\n"
        f"runpy.run_path({str(fake)!r}, run_name='__main__')\n"
    )
    program.chmod(0o755)
    socket_path = tmp_path / "qmp.sock"
    argv = [str(program), "-name", "guest=gpuaas-x", "-uuid", uuid]
    argv += ["-qmp", f"unix:{socket_path},server=on,wait=off"]
    with pytest.raises(process.StartFailed, match="did not answer within 0 seconds"):
        process.start(argv, uuid, socket_path, None, 0.3)
    assert process.find(uuid, str(tmp_path)) is None
    machine = process.start(argv, uuid, socket_path, None, 20 * late)
    try:
        assert process.find(uuid, str(tmp_path)) == machine
    finally:
        assert process.end(machine, socket_path, 0.0) in ("qmp_quit", "killed")
