"""What has this host been given to tenants, and what of it has been cleaned? On disk, by claim.

A record is written before anything is done for a claim and is dropped only when every cleanup step
of every slot has succeeded. So a slot with a record and without its machine is a slot with a
tenant's traces on it, whatever was killed in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, sync_folder, write_json
from nodeagent.protocol import SlotDevices

SLICE, BAREMETAL = "slice", "baremetal"
NO_UID = -1
_CLAIM = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True)
class Tenancy:
    """One claim on this host.

    present: its machine may be there; False once it was proven gone, when only traces are left.
    started: it has run, so that a machine that is not there has stopped.
    boot: the host's boot in which it last ran; rebooted: it was handed over in an earlier one.
    errors: each GPU's error counters at its beginning. host and port: where the tenant connects to.
    cleaned: by step, the slots that were cleaned in the attempt that is under way. uid: whom its
    machine runs as, and no other.
    """

    claim: str
    kind: str
    image: str
    hostname: str
    user: str
    ssh_keys: tuple[str, ...]
    slots: tuple[SlotDevices, ...]
    boot: str
    since_us: int
    present: bool = True
    started: bool = False
    host: str = ""
    port: int = 0
    tap: str = ""
    errors: dict[str, dict[str, int]] = field(default_factory=dict)
    attempt: int = -1
    cleaned: dict[str, list[int]] = field(default_factory=dict)
    rebooted: bool = False
    uid: int = NO_UID

    @property
    def indexes(self) -> set[int]:
        """The numbers of its slots."""
        return {slot.slot_index for slot in self.slots}

    @property
    def devices(self) -> set[str]:
        """Every device of its slots: none of them is ever shared."""
        return devices_of(self.slots)


def devices_of(slots: Iterable[SlotDevices]) -> set[str]:
    """The GPUs, NICs and NVMes that are handed over with these slots."""
    return {
        device for slot in slots for device in (slot.gpu_uuid, *slot.all_nics(), *slot.all_nvmes())
    }


class Records:
    """The host's tenancies in their folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def all(self) -> list[Tenancy]:
        """Every tenancy, by claim."""
        found = (self.get(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [one for one in found if one is not None]

    def get(self, claim: str) -> Tenancy | None:
        """The tenancy of a claim. Raises WireError when its record is damaged."""
        stored: Any = read_json(self._path(claim))
        if stored is None:
            return None
        slots = tuple(SlotDevices.from_json(slot) for slot in stored.pop("slots"))
        keys = tuple(stored.pop("ssh_keys"))
        return Tenancy(slots=slots, ssh_keys=keys, **stored)

    def put(self, tenancy: Tenancy) -> None:
        """Write a record; on disk when this returns."""
        stored = asdict(tenancy)
        stored["slots"] = [slot.to_json() for slot in tenancy.slots]
        write_json(self._path(tenancy.claim), stored)

    def drop(self, claim: str) -> None:
        """Forget a claim whose slots are clean."""
        self._path(claim).unlink(missing_ok=True)
        sync_folder(self._folder)

    def _path(self, claim: str) -> Path:
        if not _CLAIM.fullmatch(claim):
            raise ValueError("a claim is letters, digits and dashes")
        return self._folder / f"{claim}.json"
