"""What has this host been given to tenants, and what of it has been cleaned? On disk, by claim.

A record is written before anything is done for a claim and is dropped only when every cleanup step
of every slot has succeeded. So a slot with a record and without its machine is a slot with a
tenant's traces on it, whatever was killed in between. A record that cannot be read is moved aside
and told of: what it was about is unknown, and unknown is not absent.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, sync_folder, told, write_json
from nodeagent.protocol import PCI_PATTERN, SlotDevices, WireError, check_characters

log = logging.getLogger("nodeagent.helper")

SLICE, BAREMETAL = "slice", "baremetal"
NO_UID = -1
_ADDRESS = re.compile(PCI_PATTERN)
_CLAIM = re.compile(r"[A-Za-z0-9-]{1,64}")
# How a file system says that it has lost a file, by the kind of its damage.
_UNREADABLE = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG})
_BROKEN = (WireError, ValueError, TypeError, KeyError, AttributeError)
_KINDS: dict[str, type] = {
    **dict.fromkeys(("claim", "kind", "image", "hostname", "user", "boot", "host", "tap"), str),
    **dict.fromkeys(("since_us", "port", "attempt", "uid"), int),
    **dict.fromkeys(("present", "started", "rebooted"), bool),
    **dict.fromkeys(("ssh_keys", "slots", "given"), list),
    **dict.fromkeys(("errors", "cleaned"), dict),
}


@dataclass(frozen=True)
class Tenancy:
    """One claim on this host.

    present: its machine may be there; False once it was proven gone, when only traces are left.
    started: it has run, so that a machine that is not there has stopped.
    boot: the host's boot in which it last ran; rebooted: it was handed over in an earlier one.
    errors: each GPU's error counters at its beginning. host and port: where the tenant connects to.
    cleaned: by step, the slots that were cleaned in the attempt that is under way. uid: whom its
    machine runs as, and no other. given: the addresses of its GPUs, noted once they were found fit
    and before any is taken from its driver.
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
    given: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class Damaged:
    """A record that cannot be read. file: where it is now; why: what is wrong with it.

    claim: whose it is by its name, '' where that is no claim's. told: what can be relied on of it,
    None where it may be about any slot.
    """

    claim: str
    file: Path
    why: str
    told: Tenancy | None


class Records:
    """The host's tenancies in their folder; what cannot be read is moved into a folder below."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._aside = folder / "damaged"
        self._stuck: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def all(self) -> list[Tenancy]:
        """Every tenancy whose record can be read, by claim."""
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [one for one in found if one is not None]

    def get(self, claim: str) -> Tenancy | None:
        """The tenancy of a claim; None also where its record is damaged."""
        return self._read(self._path(claim))

    def damaged(self) -> list[Damaged]:
        """What cannot be read: nobody knows what of it there is on the host.

        Not of a claim that has a record again: an operator has mended it, or a release has begun.
        """
        known = {one.claim for one in self.all()}
        # Where nothing can be moved, what is damaged is still in its place.
        left = [
            path
            for path in self._folder.glob("*.json")
            if path.stem not in known and self._read(path) is None and _listed(path)
        ]
        found = (_damaged(path) for path in (*left, *self._aside.glob("*.json")))
        return sorted((one for one in found if one.claim not in known), key=lambda one: one.file)

    def put(self, tenancy: Tenancy) -> None:
        """Write a record; on disk when this returns."""
        stored = asdict(tenancy)
        stored["slots"] = [slot.to_json() for slot in tenancy.slots]
        write_json(self._path(tenancy.claim), stored)

    def drop(self, claim: str) -> None:
        """Forget a claim whose slots are clean."""
        self._path(claim).unlink(missing_ok=True)
        sync_folder(self._folder)
        aside = [path for path in self._aside.glob("*.json") if _claim_of(path) == claim]
        for path in aside:
            path.unlink(missing_ok=True)
        if aside:
            sync_folder(self._aside)

    def _read(self, path: Path) -> Tenancy | None:
        try:
            stored = read_json(path)
            if stored is None and not _listed(path):
                return None
            return _parsed(stored, path.stem)
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            self._set_aside(path, told(error))
        except _BROKEN as error:
            self._set_aside(path, str(error))
        return None

    def _set_aside(self, path: Path, why: str) -> None:
        """Out of the way, so that it is told of and the rest goes on."""
        try:
            self._aside.mkdir(exist_ok=True, mode=0o700)
            # Some of those before may have been removed by hand; none of the others is overwritten.
            taken = set(os.listdir(self._aside))
            names = (f"{path.stem}.{number}.json" for number in count())
            os.replace(path, self._aside / next(name for name in names if name not in taken))
            sync_folder(self._aside)
            sync_folder(self._folder)
        except OSError as error:
            if path not in self._stuck and _listed(path):
                self._stuck.add(path)
                log.error("%s is damaged (%s) and cannot be moved: %s", path, why, told(error))
            return
        log.error("%s is damaged (%s) and was moved to %s", path, why, self._aside)

    def _path(self, claim: str) -> Path:
        if not _CLAIM.fullmatch(claim):
            raise ValueError("a claim is letters, digits and dashes")
        return self._folder / f"{claim}.json"


def _listed(path: Path) -> bool:
    """Whether its folder has it. The file itself may be one that cannot be asked anything."""
    return path.name in os.listdir(path.parent)


def _parsed(stored: Any, claim: str) -> Tenancy:
    """A record, strictly: a byte that has changed must not become another tenant's slot.

    Members that are not known here are a later helper's, and those that are missing an earlier
    one's; both at once are no helper's. Raises one of _BROKEN.
    """
    later, kept = set(stored) - set(_KINDS), {n: v for n, v in stored.items() if n in _KINDS}
    if later and len(kept) < len(_KINDS):
        raise ValueError(f"it has {sorted(later)[0]!r}, and lacks a member")
    for name, value in kept.items():
        if type(value) is not _KINDS[name]:
            raise ValueError(f"{name} is no {_KINDS[name].__name__}")
    slots = tuple(SlotDevices.from_json(slot) for slot in kept.pop("slots"))
    keys = tuple(kept.pop("ssh_keys"))
    given = tuple(kept.pop("given", ()))
    if not all(type(one) is str and _ADDRESS.fullmatch(one) for one in given):
        raise ValueError("a GPU that was given has no PCI address")
    read = Tenancy(slots=slots, ssh_keys=keys, given=given, **kept)
    if read.claim != claim or not slots or read.kind not in (SLICE, BAREMETAL):
        raise ValueError("it is not this claim's, has no slot, or is of no kind")
    texts = (read.image, read.hostname, read.user, read.boot, read.host, read.tap)
    if not all(len(one) <= 4096 and one.isprintable() for one in texts):
        raise ValueError("a text has odd characters")
    for key in keys:
        # What a task may have: its owner may call a key in any script.
        check_characters(key, "/ssh_keys", multiline=False)
    counts = [number for named in read.errors.values() for number in named.values()]
    counts += [number for done in read.cleaned.values() for number in done]
    if not all(type(number) is int for number in counts) or not 0 <= read.port <= 65535:
        raise ValueError("a number is none")
    return read


def _damaged(path: Path) -> Damaged:
    """What can still be told. Slots count only where each can be read, with the machine's user."""
    claim = _claim_of(path)
    stored: Any = None
    try:
        stored = read_json(path)
        _parsed(stored, claim)
        # By its own name it would be whole: somebody has put it here.
        why = "it was put aside"
    except OSError as error:
        return Damaged(claim, path, told(error), None)
    except _BROKEN as error:
        why = f"{type(error).__name__}: {error}"[:200]
    try:
        slots = tuple(SlotDevices.from_json(slot) for slot in stored["slots"])
        if not claim or stored["claim"] != claim or not slots or type(stored["uid"]) is not int:
            return Damaged(claim, path, why, None)
        kind = BAREMETAL if stored.get("kind") == BAREMETAL else SLICE
        return Damaged(claim, path, why, remade(claim, kind, slots, stored["uid"]))
    except _BROKEN:
        return Damaged(claim, path, why, None)


def remade(claim: str, kind: str, slots: tuple[SlotDevices, ...], uid: int) -> Tenancy:
    """A record of which only this is known: its machine may be there, and since when is unknown."""
    return Tenancy(
        claim=claim,
        kind=kind,
        image="unknown",
        hostname="",
        user="",
        ssh_keys=(),
        slots=slots,
        boot="",
        since_us=0,
        rebooted=True,
        uid=uid,
    )


def _claim_of(path: Path) -> str:
    """By the file's name, with or without the number that it got when it was moved."""
    name = path.stem.partition(".")[0]
    return name if _CLAIM.fullmatch(name) else ""
