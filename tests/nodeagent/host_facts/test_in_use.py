"""Is a GPU that somebody on the host has open told of before it is to go to a machine?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.host.backend import HostBackend
from nodeagent.host.cleanup.looking import Opener, Users
from nodeagent.host.helper.wire import Held, SeenHolder
from nodeagent.host.nvml import Nvml
from nodeagent.host.using import GpuUsers
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.test_host_cleanup import CARD, Host

A_PROGRAM_OF_ROOTS = os.path.realpath("/usr/bin/env")
TOLD = "Model: \t\t NVIDIA H100\nDevice Minor: \t 0\nGPU Excluded:\t No\n"
OPEN = Users((Opener(uuid_of(0), 78, "a-tenants-tool"),))


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml, nvml: Nvml) -> Host:
    """A host with one GPU, which its driver tells about."""
    fake.play(gpus=1).change({"gpu.0.minor": "0"})
    made = Host(tmp_path, nvml)
    tell(made, TOLD)
    # Whoever asks NVML has the GPU open: it is not asked for this.
    fake.change({"count": "0"})
    return made


def tell(host: Host, text: str) -> None:
    """What NVIDIA's driver tells of the card."""
    told = host.root / "proc/driver/nvidia/gpus" / CARD / "information"
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(text)


def test_whoever_has_a_gpu_open_is_named(host: Host) -> None:
    assert host.devices.users() == Users()
    host.process(77, opened="nvme0n1")
    host.process(78, opened="nvidia0")
    assert host.devices.users() == OPEN


def test_what_a_hook_has_started_is_no_trouble(host: Host) -> None:
    host.process(77)
    host.process(78, opened="nvidia0")
    proc = host.root / "proc"
    (proc / "78/stat").write_text("78 (a) b) S 77 78 78 0\n")
    (proc / "77/stat").write_text(f"77 (sh) S {os.getpid()} 77 77 0\n")
    assert host.devices.users() == Users()
    (proc / "77/stat").write_text("77 (sh) S 1 77 77 0\n")
    assert host.devices.users() == OPEN


def test_the_persistence_daemon_lets_go_and_is_no_trouble(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.process(78, opened="nvidia0")
    (host.root / "proc/78/exe").symlink_to(A_PROGRAM_OF_ROOTS)
    assert host.devices.users() == OPEN
    name = "nodeagent.host.cleanup.looking.PERSISTENCE_DAEMON"
    monkeypatch.setattr(name, A_PROGRAM_OF_ROOTS)
    assert host.devices.users() == Users()


def test_a_gpu_that_a_machine_has_is_not_looked_at(host: Host) -> None:
    host.process(78, opened="nvidia0")
    host.kernel.bind(CARD, "vfio-pci")
    assert host.devices.users() == Users()


@pytest.mark.parametrize("text", ["", "Device Minor: \t ?\n", "Device Minor: 0 or 1\n"])
def test_a_gpu_whose_file_is_not_known_is_unknown(host: Host, text: str) -> None:
    host.process(78, opened="nvidia0")
    tell(host, text)
    assert host.devices.users() == Users(unknown=(uuid_of(0),))


def test_a_process_that_may_not_be_looked_into_is_unknown(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.process(77)
    host.process(78, opened="nvidia0")
    closed, look = host.root / "proc/77/fd", Path.iterdir

    def refused(folder: Path) -> Iterator[Path]:
        if folder == closed:
            raise PermissionError(13, "Permission denied")
        return iter(list(look(folder)))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert host.devices.users() == Users(OPEN.found, (77,))


# What the agent makes of it.


class Asked:
    """A helper that answers what the test says, and counts how often it was asked."""

    def __init__(self) -> None:
        self.told: Held | None = said()
        self.times = 0

    def __call__(self) -> Held | None:
        """Who has GPUs open."""
        self.times += 1
        return self.told


def said(
    *holders: tuple[str, int, str], unseen: tuple[int, ...] = (), unknown: tuple[str, ...] = ()
) -> Held:
    """An answer of the helper's."""
    return Held(tuple(SeenHolder(*one) for one in holders), unseen, unknown)


DCGM = [(f"GPU-{n}", 900, "nv-hostengine") for n in range(2)]


def told(users: GpuUsers, now: float, *, burning: bool = False) -> dict[str | None, str]:
    """Conditions by device."""
    found = users.conditions(now, burning=burning)
    assert {one.code for one in found} <= {"gpu_in_use"}
    return {one.device: one.detail for one in found}


def test_each_gpu_that_is_open_for_long_is_told_of_with_who_and_the_way_out() -> None:
    helper = Asked()
    users = GpuUsers(helper)
    helper.told = said(*DCGM, ("GPU-1", 901, "python3"), ("GPU-1", os.getpid(), "the agent"))
    assert told(users, 0.0) == {}
    found = told(users, 30.0)
    assert sorted(map(str, found)) == ["GPU-0", "GPU-1"]
    assert "open in 900 (nv-hostengine), for which" in found["GPU-0"]
    assert "open in 900 (nv-hostengine), 901 (python3), for which" in found["GPU-1"]
    assert "systemctl stop nvidia-dcgm" in found["GPU-0"]
    assert told(users, 59.0) == found
    assert helper.times == 2
    helper.told = said(DCGM[0])
    assert sorted(map(str, told(users, 60.0))) == ["GPU-0"]
    helper.told = said()
    assert told(users, 90.0) == {}


def test_who_is_gone_by_the_next_look_is_no_trouble() -> None:
    helper = Asked()
    users = GpuUsers(helper)
    for number in range(6):
        helper.told = said(("GPU-0", 100 + number, "nvidia-smi"))
        assert told(users, 30.0 * number) == {}


def test_whoever_was_seen_once_is_no_trouble_and_is_looked_for_again_soon() -> None:
    helper = Asked()
    users = GpuUsers(helper)
    helper.told = said(("GPU-0", 100, "nvidia-smi"))
    assert told(users, 0.0) == {}
    # It is not known whether it is still there: nobody answers, or it is hidden now.
    helper.told = None
    assert told(users, 20.0) == {}
    helper.told = said(unseen=(100,))
    assert told(users, 40.0) == told(users, 60.0) == {}
    helper.told = said()
    assert told(users, 90.0) == {}
    helper.told, helper.times = said(("GPU-0", 101, "nvidia-smi")), 0
    for now in (120.0, 124.0, 125.0, 130.0):
        assert told(users, now) == {}
    assert helper.times == 3
    assert list(told(users, 135.0)) == ["GPU-0"]
    assert told(users, 164.0)
    assert helper.times == 4


def test_what_cannot_be_seen_begins_no_trouble_and_ends_none() -> None:
    helper = Asked()
    users = GpuUsers(helper)
    helper.told = said(unseen=(900,), unknown=("GPU-1",))
    assert told(users, 0.0) == told(users, 30.0) == {}
    helper.told = said(*DCGM)
    told(users, 60.0)
    every = told(users, 90.0)
    assert len(every) == 2
    for step, unseen in enumerate([None, said(unseen=(900,)), said(unknown=("GPU-0", "GPU-1"))]):
        helper.told = unseen
        assert told(users, 120.0 + 30 * step) == every
    helper.told = said(unseen=(901,), unknown=("GPU-1",))
    assert sorted(map(str, told(users, 210.0))) == ["GPU-1"]


def test_a_burn_in_may_use_the_gpus_and_what_stays_after_it_is_told_of() -> None:
    helper = Asked()
    users = GpuUsers(helper)
    helper.told = said(*DCGM)
    for now in (0.0, 30.0, 60.0):
        assert told(users, now, burning=True) == {}
    assert told(users, 90.0) == {}
    assert len(told(users, 120.0)) == 2


@pytest.mark.parametrize(
    ("images", "use", "looks"),
    [
        ({"small": ""}, None, 1),
        ({"small": ""}, "slices", 1),
        ({}, None, 0),
        ({"s": ""}, "baremetal", 0),
    ],
)
def test_it_is_looked_for_where_machines_are_made(
    images: dict[str, str], use: str | None, looks: int
) -> None:
    config = SimpleNamespace(socket_path=None, images=images, intended_use=use)
    backend = HostBackend(cast(Any, config), FakeClock(), cast(Any, None), Nvml())
    helper = Asked()
    backend._users = GpuUsers(helper)
    backend._used(burning=False)
    assert helper.times == looks
