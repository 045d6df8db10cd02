"""Is no disk that the host lives on ever given away, in whichever way it uses it?"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodeagent.host.cleanup.nvme import namespaces_of
from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.config import HostConfig
from nodeagent.host.discovery import AskRoot, RootSight, discover, see_as_root
from nodeagent.host.nvml import Nvml
from nodeagent.host.wiring import OwnWiring
from nodeagent.protocol import Presence, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.fake import FakeNvml
from tests.nodeagent.host_facts.test_host_cleanup import CARD, DISK, DRIVERS, NIC, Host
from tests.nodeagent.host_facts.trees import TreeBuilder

GPU, OWN, FREE = "0000:1a:00.0", "0000:40:00.0", "0000:41:00.0"
ROOT = "21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw"


@pytest.fixture
def tree(tmp_path: Path) -> TreeBuilder:
    """A GPU and two disks, each with a partition; the first is the host's, once it is used."""
    made = TreeBuilder(tmp_path / "root")
    made.numa(0, "0-7")
    made.device(GPU, trees.GPU, trees.NVIDIA, driver="nvidia")
    for number, address in enumerate((OWN, FREE)):
        path = made.device(address, trees.NVME, trees.SAMSUNG, driver="nvme")
        base = path.relative_to(made.root).as_posix()
        made.write(f"{base}/nvme/nvme{number}/model", "A disk")
        made.write(f"{base}/nvme/nvme{number}/nvme{number}n1/size", "2000")
        block = f"sys/block/nvme{number}n1"
        made.write(f"{block}/dev", f"259:{1 + 10 * number}")
        made.write(f"{block}/nvme{number}n1p1/dev", f"259:{2 + 10 * number}")
    made.write("run/udev/data/n0", "")
    made.write("proc/1/mountinfo", "1 1 0:5 / /proc rw - proc proc rw")
    return made


def read(tree: TreeBuilder) -> TopologyReport:
    """What would be sent, read back as the control plane reads it."""
    return TopologyReport.from_json(topology_report(discover(tree.root), "host").to_json())


def _long(tree: TreeBuilder) -> None:
    """As on a host of many containers: the disk comes after the first 256 KiB."""
    layer = "overlay /var/lib/containers/x overlay rw,lowerdir=" + "l/" * 1500 + " 0 0\n"
    tree.write("proc/mounts", layer * 200 + "/dev/nvme0n1p1 /data ext4 rw 0 0")


def _member(tree: TreeBuilder) -> None:
    tree.write("proc/mounts", "/dev/nvme9n1p1 / btrfs rw 0 0")
    tree.write("sys/fs/btrfs/6c1f/devices/nvme0n1p1/size", "1")


def _bcachefs(tree: TreeBuilder) -> None:
    (tree.root / "sys/fs/bcachefs/77/dev-1").mkdir(parents=True)
    tree.link("sys/fs/bcachefs/77/dev-1/block", tree.root / "sys/block/nvme0n1")


def _zfs(tree: TreeBuilder) -> None:
    tree.write("sys/module/zfs/version", "2.2.2")
    tree.write("run/udev/data/b259:2", "N:nvme0n1p1\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=rpool")


USES: list[tuple[str, Callable[[TreeBuilder], None]]] = [
    ("by its name", lambda t: t.write("proc/mounts", "/dev/nvme0n1p1 / ext4 rw 0 0")),
    ("whole", lambda t: t.write("proc/mounts", "/dev/nvme0n1 /data xfs rw 0 0")),
    ("as /dev/root", lambda t: t.write("proc/self/mountinfo", ROOT)),
    ("by its label", lambda t: t.write("proc/self/mountinfo", ROOT.replace("root", "disk/by-l/x"))),
    ("in the first process' space alone", lambda t: t.write("proc/1/mountinfo", ROOT)),
    ("with odd optional fields", lambda t: t.write(
        "proc/self/mountinfo", "21 1 259:2 / /a rw shared:1 master:2 unbindable - ext4 x rw")),
    ("behind a long table", _long),
    ("as swap", lambda t: t.write("proc/swaps", "Filename Type\n/dev/nvme0n1p1 partition 1 0 -2")),
    ("below a volume", lambda t: t.write("sys/block/nvme0n1/nvme0n1p1/holders/dm-0", "")),
    ("below a RAID", lambda t: t.write("sys/block/nvme0n1/holders/md127", "")),
    ("as a second disk of btrfs", _member),
    ("as a disk of bcachefs", _bcachefs),
    ("as one of several of bcachefs", lambda t: t.write(
        "proc/mounts", "/dev/nvme7n1:/dev/nvme0n1p1 / bcachefs rw 0 0")),
    ("in a pool of ZFS", _zfs),
]  # fmt: skip


@pytest.mark.parametrize("use", [pytest.param(use, id=what) for what, use in USES])
def test_a_disk_that_the_host_uses_is_given_to_nobody_and_the_other_is_free(
    tree: TreeBuilder, use: Callable[[TreeBuilder], None]
) -> None:
    before = {nvme.id: nvme.reserved for nvme in read(tree).nvmes}
    assert before == {OWN: False, FREE: False}
    use(tree)
    report = read(tree)
    assert {nvme.id: nvme.reserved for nvme in report.nvmes} == {OWN: True, FREE: False}
    assert [slot.nvme for slot in report.slots] == [FREE]
    assert [f.device for f in report.findings if f.code == "nvme_carries_host"] == [OWN]


@pytest.mark.parametrize("place", ["proc/mounts", "proc/self/mountinfo", "proc/swaps"])
def test_where_a_table_cannot_be_read_no_disk_is_given_away(tree: TreeBuilder, place: str) -> None:
    (tree.root / place).mkdir(parents=True)
    report = read(tree)
    assert all(nvme.reserved for nvme in report.nvmes)
    (said,) = [one.detail for one in report.findings if one.code == "mounts_unknown"]
    assert place in said


def _alone(tree: TreeBuilder) -> TreeBuilder:
    """As for a service that sees no other process: it has mounts of its own, and not the host's."""
    tree.write("proc/self/mountinfo", "21 1 0:44 / / rw - tmpfs tmpfs rw")
    os.remove(tree.root / "proc/1/mountinfo")
    return tree


def asked(tree: TreeBuilder, ask_root: AskRoot) -> TopologyReport:
    """A discovery that may ask root."""
    return topology_report(discover(tree.root, ask_root=ask_root), "host")


def test_where_the_first_process_is_hidden_and_nobody_tells_no_disk_is_given_away(
    tree: TreeBuilder,
) -> None:
    report = read(_alone(tree))
    assert all(nvme.reserved for nvme in report.nvmes)
    (said,) = [one.detail for one in report.findings if one.code == "mounts_unknown"]
    assert "proc/1/mountinfo is hidden from this process (no_file)" in said
    why = RootSight(unreadable="the helper does not answer")
    report = asked(tree, lambda: why)
    assert all(nvme.reserved for nvme in report.nvmes)
    (said,) = [one.detail for one in report.findings if one.code == "mounts_unknown"]
    assert said.endswith("hidden from this process (no_file), and the helper does not answer")


def test_where_the_first_process_is_hidden_root_tells_which_disks_the_host_lives_by(
    tree: TreeBuilder,
) -> None:
    _alone(tree)
    with_root = TreeBuilder(tree.root.parent / "as-root")
    for root, named in ((ROOT, set()), (ROOT.replace("root", "nvme0n1p1"), {"nvme0n1p1"})):
        with_root.write("proc/1/mountinfo", root + "\n30 21 0:31 / /var/x rw - overlay overlay rw")
        sight = see_as_root(with_root.root)
        assert sight == RootSight(frozenset(named), frozenset({"259:2"}), "")
        report = asked(tree, partial(see_as_root, with_root.root))
        assert {nvme.id: nvme.reserved for nvme in report.nvmes} == {OWN: True, FREE: False}
        assert "mounts_unknown" not in {one.code for one in report.findings}


def test_while_root_cannot_be_asked_there_is_no_inventory_that_would_take_disks_from_slots(
    tree: TreeBuilder, tmp_path: Path
) -> None:
    _alone(tree)
    answers: list[RootSight] = [RootSight()]
    settings = SimpleNamespace(root=tree.root, name="h", keep=frozenset(), virtual_functions=False)
    wiring = OwnWiring(
        cast(HostConfig, settings), Nvml(), tmp_path / "agent", True, lambda: answers[0]
    )
    answers[0] = RootSight(unreadable="the helper does not answer: it restarts", away=True)
    with pytest.raises(OSError, match="it restarts"):
        wiring.read()
    # A helper of before says nothing of it, for as long as it is there.
    answers[0] = RootSight(unreadable="the helper is older than its agent")
    report = wiring.read()
    assert all(nvme.reserved for nvme in report.nvmes)
    answers[0] = RootSight(away=True, unreadable="it restarts")
    assert {one.presence for one in wiring.look(report).devices.nvmes} == {Presence.PRESENT}


def test_root_is_not_asked_where_the_first_process_is_seen(tree: TreeBuilder) -> None:
    def nobody() -> RootSight:
        raise AssertionError("asked")

    tree.write("proc/self/mountinfo", "21 1 0:44 / / rw - tmpfs tmpfs rw")
    assert not any(nvme.reserved for nvme in asked(tree, nobody).nvmes)


def test_a_first_table_that_root_cannot_read_whole_is_said_to_be_so(tree: TreeBuilder) -> None:
    os.remove(tree.root / "proc/1/mountinfo")
    assert see_as_root(tree.root).unreadable == "proc/1/mountinfo: no_file"
    (tree.root / "proc/1/mountinfo").mkdir()
    assert see_as_root(tree.root).unreadable == "proc/1/mountinfo: io_error"
    assert all(nvme.reserved for nvme in read(tree).nvmes)


def test_a_pool_that_no_module_has_open_is_a_finding_and_no_use(tree: TreeBuilder) -> None:
    tree.write("run/udev/data/b259:1", "E:ID_PART_TABLE_TYPE=gpt")
    tree.write("run/udev/data/b259:2", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_UUID=1")
    report = read(tree)
    assert not any(nvme.reserved for nvme in report.nvmes)
    (found,) = [one for one in report.findings if one.code == "nvme_holds_data"]
    assert found.device == OWN
    assert "gpt zfs_member" in found.detail
    held = {
        f.device: (f.presence, f.value, f.reason) for f in report.facts if f.name == "nvme_holds"
    }
    assert held[OWN] == (Presence.PRESENT, "gpt zfs_member", None)
    assert held[FREE] == (Presence.ABSENT, None, "nothing_found")


def test_without_udev_nobody_knows_what_a_disk_holds(tree: TreeBuilder) -> None:
    os.remove(tree.root / "run/udev/data/n0")
    os.rmdir(tree.root / "run/udev/data")
    held = [f for f in read(tree).facts if f.name == "nvme_holds"]
    assert [(f.presence, f.reason) for f in held] == [(Presence.UNKNOWN, "no_udev")] * 2


def test_what_udev_says_in_odd_bytes_is_not_repeated(tree: TreeBuilder) -> None:
    (tree.root / "run/udev/data/b259:1").write_bytes(b"E:ID_FS_TYPE=\xff\x1b[31m\nE:ID_FS_TYPE\n")
    held = [f for f in read(tree).facts if f.name == "nvme_holds" and f.device == OWN]
    assert [f.presence for f in held] == [Presence.ABSENT]


def test_a_disk_of_two_ports_is_cleaned_by_the_name_that_has_a_file(tmp_path: Path) -> None:
    for name in ("nvme2/nvme0c2n1", "nvme2/nvme0c2n2", "nvme2/ng0n1", "nvme2/hwmon3"):
        (tmp_path / "nvme" / name).mkdir(parents=True)
    assert namespaces_of(tmp_path) == ["nvme0n1", "nvme0n2"]


def test_interfaces_of_odd_bytes_cost_their_names_alone(tree: TreeBuilder) -> None:
    nic = tree.device("0000:2a:00.0", trees.ETHERNET, trees.MELLANOX, driver="mlx5_core")
    for name in (b"eth\xff0", b"eth0", b"\x1b[2J"):
        os.makedirs(os.path.join(os.fsencode(nic), b"net", name))
    tree.device("0000:2b:00.0", trees.ETHERNET, trees.MELLANOX, driver="mlx5_core")
    report = read(tree)
    assert [nic.name for nic in report.nics] == ["eth0", None]


def test_a_machine_whose_other_nodes_are_memory_alone_has_its_devices_on_the_first(
    tree: TreeBuilder,
) -> None:
    tree.numa(1, "")
    tree.numa(2, "", 0)
    for address in (GPU, OWN, FREE):
        (tree.paths[address] / "numa_node").write_text("-1\n")
    report = read(tree)
    assert [gpu.numa for gpu in report.gpus] == [0]
    assert {nvme.numa for nvme in report.nvmes} == {0}
    assert [slot.cpuset for slot in report.slots] == ["0-7"]
    assert "gpu_numa_unknown" not in {one.code for one in report.findings}


# Between its approval and its hand-over


def _mounted(host: Host) -> None:
    (host.root / "proc/mounts").write_text("/dev/nvme0n1p1 /srv ext4 rw 0 0\n")


def _swapped(host: Host) -> None:
    (host.root / "proc/swaps").write_text("Filename Type\n/dev/nvme0n1 partition 1 0 -2\n")


def _elsewhere(host: Host) -> None:
    host.process(77, mounted="259:0")


def _layered(host: Host) -> None:
    (host.root / "sys/class/block/nvme0n1/holders/dm-0").mkdir()


def _unreadable(host: Host) -> None:
    (host.root / "proc/mounts").mkdir()


def _routed(host: Host) -> None:
    (host.kernel._folder(NIC) / "net/eth0").mkdir(parents=True)
    route = "eth0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0"
    (host.root / "proc/net").mkdir()
    (host.root / "proc/net/route").write_text(f"Iface Destination\n{route}\n")


def _unlisted(host: Host) -> None:
    (host.kernel._folder(NIC) / "net/eth0").mkdir(parents=True)
    (host.root / "proc/net/route").mkdir(parents=True)


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("begin", "device"),
    [
        (_mounted, DISK),
        (_swapped, DISK),
        (_elsewhere, "/somewhere"),
        (_layered, "dm-0"),
        (_unreadable, "proc/mounts"),
        (_routed, "eth0"),
        (_unlisted, "proc/net/route"),
    ],
)
def test_what_the_host_has_begun_to_live_by_is_not_taken_from_it(
    tmp_path: Path,
    fake: FakeNvml,
    nvml: Nvml,
    begin: Callable[[Host], None],
    device: str,
) -> None:
    fake.play(gpus=1).change({"gpu.0.minor": "0"})
    host = Host(tmp_path, nvml)
    begin(host)
    with pytest.raises(StepFailed) as refused:
        host.devices.attach([host.slot], None)
    assert device in str(refused.value)
    assert [host.bus.driver(one) for one in (CARD, NIC, DISK)] == [
        DRIVERS[one] for one in (CARD, NIC, DISK)
    ]
