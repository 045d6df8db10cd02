"""How does a file stand in for a slot's devices where there are none, in tests and demonstrations?

It stays where it is from one tenant to the next, as a device does, so that what is not wiped is
really there for the next one to find.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from nodeagent.host.cleanup.looking import Users, holders
from nodeagent.host.cleanup.steps import Before, Done, StepFailed
from nodeagent.host.runtime.owners import Owner, give
from nodeagent.host.runtime.spec import StandIn
from nodeagent.protocol import SlotDevices

SIZE_BYTES = 4 * 1024 * 1024
_PART = 1024 * 1024


class StandInDevices:
    """One file a slot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        # Passed by the machines' user, listed by nobody.
        folder.chmod(0o711)

    def vet(
        self, slots: Sequence[SlotDevices], given: Collection[str] = (), machine: int | None = None
    ) -> tuple[str, ...]:
        """A file has no address, and is as good as any."""
        return ()

    def attach(
        self,
        slots: Sequence[SlotDevices],
        owner: Owner | None,
        given: Collection[str] = (),
        machine: int | None = None,
    ) -> tuple[StandIn, ...]:
        """Make the files that are not there yet, and the machine's own. Raises StepFailed."""
        made = []
        for slot in slots:
            path = self.path(slot)
            try:
                with path.open("ab") as stream:
                    stream.truncate(SIZE_BYTES)
                give(path, owner)
            except OSError as error:
                raise StepFailed(f"{path.name}: {error.strerror}") from error
            made.append(StandIn(path, f"slot{slot.slot_index}"))
        return tuple(made)

    def path(self, slot: SlotDevices) -> Path:
        """The file of a slot."""
        return self._folder / f"slot-{slot.slot_index}.img"

    def look(self) -> None:
        """Nothing passes by at a file."""

    def users(self) -> Users:
        """Nobody: a file may be given away whoever has it open."""
        return Users()

    def error_counts(self, slots: Sequence[SlotDevices]) -> dict[str, dict[str, int]]:
        """A file counts no errors."""
        return {slot.gpu_uuid: {} for slot in slots}

    def detach(self, slot: SlotDevices) -> Done:
        """There is no driver to change. Raises StepFailed while a machine still has the file."""
        self._refuse_open(slot)
        return Done("stand_in_closed", f"no process has what stands in for {slot.gpu_uuid} open")

    def scrub(self, slot: SlotDevices, before: Before) -> Done:
        """Overwrite, and read back. Raises StepFailed."""
        path = self.path(slot)
        if not path.exists():
            return Done("memory_overwrite", "it was never handed out")
        try:
            with path.open("r+b") as stream:
                for _ in range(0, SIZE_BYTES, _PART):
                    stream.write(bytes(_PART))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise StepFailed(f"{path.name}: {error.strerror}") from error
        self._refuse_dirty(slot)
        return Done("memory_overwrite", f"{SIZE_BYTES} bytes overwritten and read back as zero")

    def no_process(self, slot: SlotDevices) -> Done:
        """Look at every process' open files. Raises StepFailed."""
        self._refuse_open(slot)
        return Done("open_files", "no process has it open")

    def no_mount(self, slot: SlotDevices) -> Done:
        """A file is not mounted by itself; a loop device would have it open. Raises StepFailed."""
        self._refuse_open(slot)
        return Done("open_files", "no loop device has it open")

    def sanitise(self, slot: SlotDevices) -> Done:
        """The slot's NVMe is stood in for by the same file. Raises StepFailed."""
        self._refuse_dirty(slot)
        return Done("stand_in_overwrite", f"{len(slot.all_nvmes())} NVMe devices are stood in for")

    def reset_nics(self, slot: SlotDevices) -> Done:
        """No real NIC was handed over, and the machine's virtual one ended with it."""
        return Done("virtual_nic_removed", f"{len(slot.all_nics())} NICs are stood in for")

    def error_free(self, slot: SlotDevices, before: Before) -> Done:
        """A file has no error counters."""
        return Done("stand_in", "what stands in for the GPU has no error counters")

    def _refuse_open(self, slot: SlotDevices) -> None:
        found = holders([self.path(slot)])
        if found:
            raise StepFailed(f"still open in {', '.join(found)}")

    def _refuse_dirty(self, slot: SlotDevices) -> None:
        path = self.path(slot)
        if not path.exists():
            return
        with path.open("rb") as stream:
            while part := stream.read(_PART):
                if part.strip(b"\0"):
                    raise StepFailed("it does not read back as zero")
