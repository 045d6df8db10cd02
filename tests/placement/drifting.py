"""A host whose machines a test can break behind the control plane's back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nodeagent.protocol import (
    Address,
    Condition,
    ObservedDevice,
    ObservedDevices,
    ObservedReport,
    ObservedVm,
    Presence,
    VmState,
)
from placement.models import Allocation
from placement.services import observed
from tests.builders import Host, drive_all

PORT = 2222


@dataclass
class Broken:
    """A host that tells what it has, whatever that is, and does what it is asked to do."""

    host: Host
    machines: dict[str, ObservedVm] = field(default_factory=dict)
    gpus: dict[str, Presence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = self.host.node.name
        self.gpus = {f"GPU-{name}-{k}": Presence.PRESENT for k in range(8)}

    def work(self) -> None:
        """Make what is to be made, release what is to be released."""
        while leased := self.host.lease():
            for task in leased:
                ref = task.params.get("allocation_id", "")
                if task.kind.endswith("provision"):
                    slots = tuple(one["slot_index"] for one in task.params["slots"])
                    self.machines[ref] = machine(ref, slots)
                    self.host.complete(task)
                elif task.kind.endswith("release"):
                    self.machines.pop(ref, None)
                    self.host.complete(task)
                else:
                    self.host.fail(task)
            drive_all()
        drive_all()

    def report(self, *conditions: Condition) -> None:
        """Say what is there."""
        self.host.seq += 1
        gpus = tuple(ObservedDevice(gpu, presence) for gpu, presence in self.gpus.items())
        message = ObservedReport(
            self.host.boot,
            self.host.seq,
            0,
            tuple(self.machines.values()),
            ObservedDevices(gpus=gpus),
            conditions,
        )
        observed.node_observed(node=self.host.fresh(), message=message)

    def reboot(self, number: int) -> None:
        """Come back as another boot, with everything that was there."""
        self.host.boot, self.host.seq = f"boot-{number:08d}", 0

    def change(self, ref: str, **how: object) -> None:
        """Make a machine otherwise."""
        self.machines[ref] = replace(self.machines[ref], **how)  # type: ignore[arg-type]  # fields

    def stranger(self, name: str) -> None:
        """A machine that nobody asked for."""
        self.machines[name] = ObservedVm(None, name, VmState.RUNNING, ())


def machine(ref: str, slots: tuple[int, ...]) -> ObservedVm:
    """A running machine of an allocation."""
    address = Address("127.0.0.1", PORT, "ubuntu")
    return ObservedVm(ref, f"vm-{ref[-6:]}", VmState.RUNNING, slots, address)


def living(broken: Broken) -> list[Allocation]:
    """What is held on the host."""
    rows = Allocation.objects.filter(node=broken.host.node).exclude(state="released")
    return list(rows.order_by("created_at"))
