"""A simulated host, a control plane for it, and a way to run the agent between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from nodeagent.daemon import Pace
from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    DeviceMode,
    SlotDevices,
    VmProvisionParams,
    VmReleaseParams,
)
from nodeagent.simhost.agent import SimAgent, make_agent
from nodeagent.simhost.backend import SimBackend
from nodeagent.simhost.hardware import HardwareConfig, create_host
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.control import TOKEN, Control, serve
from tests.topologies import topology_file

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtlZXAgdGhpcyBvdXQgb2YgdGhlIGxvZ3M= me@example.org"
T = TypeVar("T")


@dataclass
class Bench:
    """One simulated host and its control plane."""

    folder: Path
    control: Control
    clock: FakeClock

    @property
    def backend(self) -> SimBackend:
        """The host as another process would see it."""
        return SimBackend(self.folder, self.clock, step_s=0.05)

    def run(self, story: Callable[[SimAgent], Awaitable[T]]) -> T:
        """Start the agent's process, let the story drive it, and end it."""

        async def process() -> T:
            async with httpx.AsyncHTTPTransport() as pool:
                agent = make_agent(
                    self.folder,
                    self.control.url,
                    pool,
                    self.clock,
                    pace=Pace(heartbeat_every_s=0.0),
                    chance=random.Random(7),
                )
                return await story(agent)

        return asyncio.run(process())

    def rounds(self, count: int = 3) -> None:
        """Run the agent for some rounds, each until its work is done."""

        async def story(agent: SimAgent) -> None:
            for _ in range(count):
                await agent.step()
                await agent.settle()

        self.run(story)

    def slots(self, *indexes: int) -> tuple[SlotDevices, ...]:
        """Slots as the control plane would name them."""
        report = self.backend.topology()
        named = []
        for slot in report.slots:
            if slot.index in indexes:
                assert slot.gpu_uuid is not None
                own = slot.nic_mode is DeviceMode.EXCLUSIVE
                named.append(
                    SlotDevices(
                        slot_index=slot.index,
                        gpu_uuid=slot.gpu_uuid,
                        nic=slot.nic if own else None,
                        numa=slot.numa,
                        cpuset=slot.cpuset,
                        memory_bytes=slot.memory_bytes,
                        nic_mode=slot.nic_mode,
                        nvme_mode=slot.nvme_mode,
                    )
                )
        return tuple(named)

    def provision(self, *indexes: int, allocation: str = "alloc-1") -> VmProvisionParams:
        """Parameters of a slice on these slots."""
        return VmProvisionParams(allocation, "ubuntu-24.04", (KEY,), "tenant", self.slots(*indexes))

    def release(self, *indexes: int, allocation: str = "alloc-1") -> VmReleaseParams:
        """Parameters of its release."""
        return VmReleaseParams(allocation, 1, self.slots(*indexes))

    def bare_provision(self, allocation: str = "alloc-1") -> BaremetalProvisionParams:
        """Parameters of the whole node."""
        every = self.slots(*range(8))
        return BaremetalProvisionParams(allocation, "ubuntu-24.04", (KEY,), "tenant", every)

    def bare_release(self, allocation: str = "alloc-1") -> BaremetalReleaseParams:
        """Parameters of its release."""
        return BaremetalReleaseParams(allocation, 1, self.slots(*range(8)))


@pytest.fixture
def clock() -> FakeClock:
    """A clock that does not run by itself."""
    return FakeClock()


@pytest.fixture
def bench(tmp_path: Path, clock: FakeClock) -> Iterator[Bench]:
    """A host that has not joined yet, with a token left for it, and its control plane."""
    folder = tmp_path / "host-1"
    create_host(folder, HardwareConfig("host-1"), topology_file("azure-ndv5-topo.xml"))
    (folder / "join-token").write_text(TOKEN)
    control = Control(clock)
    with serve(control):
        yield Bench(folder, control, clock)
