"""What is on a simulated host's disk: its boots, VMs, and the marks that tenants left on devices?

Every change is one atomic, durable replacement of `host.json`, so a kill at any moment leaves a
state that a real host could be in.

A canary is the mark of one allocation. Provisioning writes it on every device it hands over, as a
tenant would leave data; cleanup removes it. A device with a canary and without its tenant has not
been cleaned, whatever was claimed.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, write_json
from nodeagent.protocol import GpuPart
from nodeagent.simhost.devices import on_gpu

UNKNOWN_CLAIM = ""


@dataclass
class SimVm:
    """A VM or a bare-metal tenancy. allocation "" means that nobody asked for it."""

    name: str
    allocation: str
    kind: str
    state: str
    image: str
    slots: list[int]
    devices: list[str]
    host: str
    port: int
    part: dict[str, Any] | None = None


@dataclass
class SimHostState:
    """The durable part of a host. canaries: by device id, who left a mark there.

    parts: the parts of GPUs that exist, by device id, as their tasks described them. burning: the
    GPUs that a burn-in has under load; it outlives the agent's process, but no reboot, and ends at
    burning_until (Unix seconds) by itself. burning_task: whose load it is. burned: how many
    burn-ins have come to their end.
    """

    name: str
    boot_id: str
    boots: int = 1
    vms: dict[str, SimVm] = field(default_factory=dict)
    canaries: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    burning: list[str] = field(default_factory=list)
    burning_until: float = 0.0
    burned: int = 0
    burning_task: str = ""

    def loaded(self, now: float) -> list[str]:
        """The GPUs that are under load at this time."""
        if self.burning and now >= self.burning_until:
            self.burning = []
        return self.burning

    def parts_on(self, slot_index: int, *, but: str | None = None) -> list[GpuPart | None]:
        """What machines have of a slot, but for one allocation's: None where one has all of it."""
        return [
            None if vm.part is None else GpuPart.from_json(vm.part)
            for key, vm in self.vms.items()
            if slot_index in vm.slots and key != but
        ]

    def left_on(self, gpus: Iterable[str]) -> list[str]:
        """The GPUs, or parts of them, on which somebody who is gone left data."""
        return [
            device
            for gpu in gpus
            for device in on_gpu(gpu, self.canaries)
            if self.canaries[device] not in self.vms
        ]


class StateStore:
    """Keeps a host's state in its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "host.json"
        self._seen: tuple[int, int] | None = None
        self.state = self._read() or self._create(name)

    def save(self) -> None:
        """Write the state; on disk when this returns."""
        write_json(self._path, asdict(self.state))
        self._remember()

    def refresh(self) -> None:
        """Take in what a person changed on the disk meanwhile."""
        stat = self._path.stat()
        if self._seen != (stat.st_mtime_ns, stat.st_ino):
            self.state = self._read() or self.state

    def reboot(self) -> None:
        """A new boot. What is defined starts by itself; what only ran in memory is gone."""
        state = self.state
        state.boots += 1
        state.boot_id = str(uuid.uuid4())
        state.burning = []
        for vm in state.vms.values():
            vm.state = "running"
        self.save()

    def _create(self, name: str) -> SimHostState:
        self.state = SimHostState(name=name, boot_id=str(uuid.uuid4()))
        self.save()
        return self.state

    def _read(self) -> SimHostState | None:
        stored: Any = read_json(self._path)
        if not isinstance(stored, dict):
            return None
        self._remember()
        vms = {key: SimVm(**vm) for key, vm in stored.pop("vms").items()}
        return SimHostState(vms=vms, **stored)

    def _remember(self) -> None:
        stat = self._path.stat()
        self._seen = (stat.st_mtime_ns, stat.st_ino)


def gpu_uuid(name: str, pci: str | None, index: int) -> str:
    """A GPU's UUID, the same for a host and place for ever."""
    place = pci if pci is not None else f"index {index}"
    digest = hashlib.sha256(f"gpu {name} {place}".encode()).hexdigest()
    return f"GPU-{uuid.UUID(digest[:32])}"


def address(name: str, allocation: str) -> tuple[str, int]:
    """Loopback address and port of an allocation on a host; the same whenever asked."""
    digest = hashlib.sha256(f"address {name} {allocation}".encode()).digest()
    port = 20_000 + int.from_bytes(digest[:2], "big") % 40_000
    return f"127.{64 + digest[2] % 128}.{digest[3]}.{1 + digest[4] % 254}", port
