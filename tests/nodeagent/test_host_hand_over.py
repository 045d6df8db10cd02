"""Can a machine that was taken over choose what root hands to it, or writes, the next time?"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.cleanup.stand_in import StandInDevices
from nodeagent.host.config import HostConfig, Image, NetworkKind, Tools, VmConfig
from nodeagent.host.hooks import Hooks
from nodeagent.host.records import SLICE, Tenancy
from nodeagent.host.runtime.machines import Machines
from nodeagent.protocol import TopologyReport
from tests.nodeagent.host_stage import FAKE_XORRISO, KEY

CLAIM = "alloc-1"
MACHINES_USER = "nobody"
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
    devices = StandInDevices(tmp_path / "stand-ins", MACHINES_USER)
    return Machines(config, no_report, devices, Hooks({}), accelerated=False)


def a_tenancy() -> Tenancy:
    """A claim on no slot: this is about its files."""
    return Tenancy(CLAIM, SLICE, "base", "vm-1", "ubuntu", (KEY,), (), "boot-id-1", 0)


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
    machines.prepare(a_tenancy())
    folder, user = folder_of(tmp_path), pwd.getpwnam(MACHINES_USER).pw_uid
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
    for name in ("disk.qcow2", "seed.iso"):
        found = (folder / name).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (user, 0o600)


@pytest.mark.parametrize("name", ["disk.qcow2", "other"])
def test_what_a_link_points_to_is_not_handed_over(
    machines: Machines, tmp_path: Path, name: str
) -> None:
    machines.prepare(a_tenancy())
    secret = a_file_of_roots(tmp_path)
    (folder_of(tmp_path) / name).unlink(missing_ok=True)
    (folder_of(tmp_path) / name).symlink_to(secret)
    if name == "disk.qcow2":
        with pytest.raises(BackendError, match="not a plain file"):
            machines.prepare(a_tenancy())
    else:
        machines.prepare(a_tenancy())
    assert unchanged(secret)


def test_a_second_name_of_a_file_is_not_handed_over(machines: Machines, tmp_path: Path) -> None:
    machines.prepare(a_tenancy())
    secret = a_file_of_roots(tmp_path)
    (folder_of(tmp_path) / "disk.qcow2").unlink()
    os.link(secret, folder_of(tmp_path) / "disk.qcow2")
    with pytest.raises(BackendError, match="of its own"):
        machines.prepare(a_tenancy())
    assert unchanged(secret)


def test_a_new_disk_is_not_written_through_a_link(machines: Machines, tmp_path: Path) -> None:
    secret = a_file_of_roots(tmp_path)
    folder_of(tmp_path).mkdir(parents=True)
    (folder_of(tmp_path) / "disk.new").symlink_to(secret)
    machines.prepare(a_tenancy())
    assert unchanged(secret)
    assert (folder_of(tmp_path) / "disk.qcow2").read_text() == "disk"
