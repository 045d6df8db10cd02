"""What must any kind of device be able to do for a cleanup?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nodeagent.host.cleanup.looking import Users
from nodeagent.host.runtime.owners import Owner
from nodeagent.host.runtime.spec import StandIn
from nodeagent.protocol import CleanupStep, SlotDevices


class StepFailed(Exception):
    """The step was not done, or what it should have brought about is not so."""


@dataclass(frozen=True)
class Done:
    """How a step was done, and what was seen to be so afterwards."""

    method: str
    detail: str


@dataclass(frozen=True)
class Before:
    """How things were when the slot was handed over. boot and since_us: when; counts: of its GPU.

    boot is empty when the host has booted since, whatever ran again by itself afterwards. counts
    has also how the GPU was set (1: on); it is None when this host never handed the slot to the
    claim. whole_host: with all of the host, where nobody could count beforehand.
    """

    boot: str
    since_us: int
    counts: Mapping[str, int] | None
    whole_host: bool = False


class Devices(Protocol):
    """A host's devices, real or stood in for. Every operation may be repeated."""

    def vet(
        self, slots: Sequence[SlotDevices], given: Collection[str] = (), machine: int | None = None
    ) -> tuple[str, ...]:
        """The addresses of the slots' GPUs, if they may go to a machine; nothing is changed.

        given: those that were vetted for it before. machine: its process, where it has one. One
        that is bound for machines already, and is neither, was somebody else's. Raises StepFailed.
        """

    def attach(
        self,
        slots: Sequence[SlotDevices],
        owner: Owner | None,
        given: Collection[str] = (),
        machine: int | None = None,
    ) -> tuple[StandIn, ...]:
        """Make the slots' devices ready for the machine of this user, None being this process'.

        They are vetted once more. Gives what stands in for them, if anything. Raises StepFailed.
        """

    def look(self) -> None:
        """Take note of what passes by and would be gone when it is asked for. Raises OSError."""

    def users(self) -> Users:
        """Who has GPUs open that could not go to a machine for that; by the GPU's UUID."""

    def error_counts(self, slots: Sequence[SlotDevices]) -> dict[str, dict[str, int]]:
        """Error counters by GPU and how it is set (1: on), as far as they can be read."""

    def detach(self, slot: SlotDevices) -> Done:
        """Take the devices back. Raises StepFailed."""

    def scrub(self, slot: SlotDevices, before: Before) -> Done:
        """Empty the GPU's memory, and set it as it was before. Raises StepFailed."""

    def no_process(self, slot: SlotDevices) -> Done:
        """Show that nobody has a device open. Raises StepFailed."""

    def no_mount(self, slot: SlotDevices) -> Done:
        """Show that no file system of the slot is mounted. Raises StepFailed."""

    def sanitise(self, slot: SlotDevices) -> Done:
        """Erase the NVMe devices. Raises StepFailed."""

    def reset_nics(self, slot: SlotDevices) -> Done:
        """Reset the NICs. Raises StepFailed."""

    def error_free(self, slot: SlotDevices, before: Before) -> Done:
        """Show that the GPU had no fatal error since it was handed over. Raises StepFailed."""


def device_step(devices: Devices, step: CleanupStep, slot: SlotDevices, before: Before) -> Done:
    """Do one step on a slot's devices. Raises StepFailed."""
    match step:
        case CleanupStep.DEVICES_DETACHED:
            return devices.detach(slot)
        case CleanupStep.GPU_SCRUBBED:
            return devices.scrub(slot, before)
        case CleanupStep.NO_PROCESS:
            return devices.no_process(slot)
        case CleanupStep.NO_MOUNT:
            return devices.no_mount(slot)
        case CleanupStep.NVME_SANITISED:
            return devices.sanitise(slot)
        case CleanupStep.NIC_RESET:
            return devices.reset_nics(slot)
        case CleanupStep.GPU_ERROR_FREE:
            return devices.error_free(slot, before)
    raise StepFailed(f"{step} is not a step of the devices'")
