"""What does the kernel's own driver show of one of AMD's GPUs, without any library of AMD's?

Its files and users, its memory in use, its memory errors, how it can be reset, and which hive it is
in. From sysfs, by the kernel's documentation of amdgpu and of PCI; what cannot be read is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nodeagent.host.discovery.bus import PciDevice
from nodeagent.host.discovery.machine import Facts
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.protocol import Presence
from nodeagent.topology.model import Draft
from nodeagent.topology.pci import AMD, DeviceKind, address_key, hex_id

AMDGPU: Final = "amdgpu"
VFIO: Final = "vfio-pci"
CLEANABLE: Final = "gpu_cleanable"
"""The fact by which a discovery tells whether a machine's traces can be taken off a GPU here."""
NO_HIVE, HIVE_SHARED = "no_hive", "hive_shared"
# Of the kernel's methods (Documentation/ABI/testing/sysfs-bus-pci, reset_method) not `pm`: many of
# AMD's cards say that the way from D3hot to D0 resets them, and it does not (the quirk
# `quirk_no_pm_reset` in drivers/pci/quirks.c takes it from those of the display class alone). Nor
# those of the whole bus: once a driver was loaded a secondary bus reset does not reset the card, by
# its driver's maintainer (dri-devel, 2024-10-18).
RESETS: Final = frozenset({"device_specific", "acpi", "flr", "af_flr"})
_DRM: Final = re.compile(r"(card|renderD)\d{1,4}")
_HIVE: Final = "xgmi_hive_info"
_COUNTS: Final = re.compile(r"(ue|ce|de): (\d{1,20})")
_PAGE: Final = re.compile(r"0x[0-9a-f]+ : 0x[0-9a-f]+ : ([RPF])", re.IGNORECASE)
_MEMORY: Final = "umc_err_count"
_ERRORS: Final = "_err_count"


@dataclass(frozen=True)
class BadPages:
    """Pages of its memory, as the card itself remembers them over resets and drivers.

    retired: all that were found bad. waiting: those of them that are not taken out of use yet.
    """

    retired: int
    waiting: int


@dataclass(frozen=True)
class AmdCard:
    """One of AMD's GPUs, at an address of this tree's bus."""

    tree: Tree
    address: str

    @property
    def folder(self) -> Path:
        """Its folder in sysfs."""
        return self.tree.path("sys/bus/pci/devices", self.address)

    @property
    def is_one(self) -> bool:
        """Whether what is at the address was made by AMD."""
        return hex_id(self.tree.text(self.folder / "vendor").value) == AMD

    @property
    def driver(self) -> str:
        """Who has it, '' for nobody."""
        return self.tree.link_name(self.folder / "driver").value or ""

    def files(self) -> tuple[str, ...]:
        """The files below /dev through which it alone is used; none without its driver."""
        names = self.tree.names(self.folder / "drm")
        return tuple(f"dri/{name}" for name in names if _DRM.fullmatch(name))

    def memory_used(self) -> Fact[int]:
        """Bytes of its memory that the driver has given away, to itself or to anybody."""
        return self.tree.number(self.folder / "mem_info_vram_used")

    def uncorrected(self) -> Fact[int]:
        """Errors that were not corrected, or put off, in all its blocks since the driver took it.

        Unknown as soon as one block cannot say, or none speaks of the memory.
        """
        names = [name for name in self.tree.names(self.folder / "ras") if name.endswith(_ERRORS)]
        if _MEMORY not in names:
            return unknown("errors_not_counted")
        total = 0
        for name in names:
            lines = (self.tree.text(self.folder / "ras" / name).value or "").splitlines()
            found = [_COUNTS.fullmatch(line.strip()) for line in lines]
            told = {one[1]: int(one[2]) for one in found if one is not None}
            if len(told) != len(lines) or "ue" not in told:
                # While it resets the driver says so instead of numbers.
                return unknown("errors_not_told")
            total += told["ue"] + told.get("de", 0)
        return present(total)

    def bad_pages(self) -> Fact[BadPages]:
        """The pages that are bad."""
        text = self.tree.text(self.folder / "ras" / "gpu_vram_bad_pages")
        if text.value is None:
            return Fact(text.presence, None, text.reason)
        found = [_PAGE.fullmatch(line.strip("\0 ")) for line in text.value.splitlines()]
        flags = [one[1].upper() for one in found if one is not None]
        if len(flags) != len(found):
            return unknown("unreadable_answer")
        waiting = sum(flag != "R" for flag in flags)
        return present(BadPages(len(flags), waiting))

    def methods(self) -> Fact[tuple[str, ...]]:
        """How the kernel would reset it, in its order."""
        if not self.tree.exists("sys/bus/pci/devices", self.address, "reset"):
            return absent("no_reset_file")
        told = self.tree.text(self.folder / "reset_method")
        if told.value is None:
            return absent("reset_method_unknown")
        return present(tuple(told.value.split()))

    def hive(
        self, bus: Mapping[str, PciDevice], named: Mapping[str | None, str | None]
    ) -> Fact[tuple[str, ...]]:
        """All of its hive by address, itself among them; absent where it is in none.

        Only amdgpu can say, each card of those that it has for itself: the links from one to its
        mates are not read, since the kernel takes the wrong one away when it lets go of a card. Of
        the others none is known to be elsewhere but by `named`, the domains of GPUs as last read:
        the rest count as in this one.
        """
        if self.driver != AMDGPU:
            return unknown("driver_vfio" if self.driver == VFIO else "not_amdgpu")
        if not self._in_hive:
            return absent(NO_HIVE)
        own = self._hive_id()
        if own is None:
            return unknown("hive_unreadable")
        known = {self.address}
        mine = _xgmi(named.get(self.address))
        for other in cards(self.tree, bus):
            if other.driver == AMDGPU:
                its_own = other._hive_id()
                if its_own is None and other._in_hive:
                    return unknown("hive_unreadable")
                if its_own == own:
                    known.add(other.address)
                continue
            its = _xgmi(named.get(other.address))
            if not (mine and its and mine != its):
                known.add(other.address)
        return present(tuple(sorted(known, key=address_key)))

    @property
    def _in_hive(self) -> bool:
        # Also by a link to the folder at a card that is gone.
        return _HIVE in self.tree.names(self.folder)

    def _hive_id(self) -> int | None:
        """By which number amdgpu calls its hive; None where it is in none or that is not read."""
        told = self.tree.text(self.folder / _HIVE / "xgmi_hive_id").value or ""
        number = told.strip("\0 \n")
        return int(number) if number.isascii() and number.isdecimal() and int(number) else None

    def compute_ids(self) -> Fact[frozenset[str]]:
        """The numbers by which the compute half of the driver (KFD) knows it, or its partitions."""
        place = self.tree.path("sys/class/kfd/kfd/topology/nodes")
        if not self.tree.exists("sys/class/kfd/kfd"):
            return absent("no_kfd")
        domain, bus, device, function = address_key(self.address)
        wanted = (domain, bus << 8 | device << 3 | function)
        found = set()
        for name in self.tree.names(place):
            rows = (self.tree.text(place / name / "properties").value or "").splitlines()
            told = {row.partition(" ")[0]: row.partition(" ")[2].strip() for row in rows}
            number = self.tree.text(place / name / "gpu_id").value
            try:
                # The upper bits of the location tell a card's partitions apart.
                where = (int(told["domain"]), int(told["location_id"]) & 0xFFFF)
            except (KeyError, ValueError):
                continue
            if number and number != "0" and where == wanted:
                found.add(number)
        return present(frozenset(found)) if found else unknown("not_in_kfd")

    def compute_users(self, ids: Collection[str]) -> list[str]:
        """The processes that KFD keeps something for on one of these, by their number."""
        place = self.tree.path("sys/class/kfd/kfd/proc")
        wanted = {f"vram_{one}" for one in ids}
        return [
            pid
            for pid in self.tree.names(place)
            if pid.isdecimal() and wanted & set(self.tree.names(place / pid))
        ]

    def cleanable(self, hive: Fact[tuple[str, ...]]) -> Fact[str]:
        """By which resets a machine's traces can be taken off it and shown to be gone.

        Absent, with the reason, where that cannot be; unknown while a machine has it. That its hive
        has others is said only where nothing else is in the way.
        """
        if self.driver != AMDGPU:
            return unknown("driver_vfio") if self.driver == VFIO else absent("not_amdgpu")
        methods = self.methods()
        if methods.value is None:
            return absent(methods.reason)
        proving = [one for one in methods.value if one in RESETS]
        if not proving:
            return absent("reset_proves_nothing")
        if hive.value is None and hive.reason != NO_HIVE:
            return absent(hive.reason)
        for fact, reason in (
            (self.memory_used(), "memory_not_told"),
            (self.uncorrected(), "errors_not_counted"),
            (self.bad_pages(), "bad_pages_not_told"),
        ):
            if fact.value is None:
                return absent(reason)
        if hive.value is not None and len(hive.value) > 1:
            return absent(HIVE_SHARED)
        return present(", ".join(proving))


def cards(tree: Tree, bus: Mapping[str, PciDevice]) -> list[AmdCard]:
    """AMD's GPUs on this bus, without virtual functions."""
    return [
        AmdCard(tree, one.address)
        for one in bus.values()
        if one.kind is DeviceKind.GPU and one.vendor == AMD and one.physical is None
    ]


def _xgmi(domain: str | None) -> str | None:
    """A domain that is a hive as AMD's library named it."""
    return domain if domain and domain.startswith("xgmi-") else None


def add_cleanable(
    tree: Tree, bus: Mapping[str, PciDevice], draft: Draft, facts: dict[str, Facts]
) -> None:
    """Say of each of AMD's GPUs whether a machine's traces could be taken off it.

    The draft's GPUs have their hives already.
    """
    named = {gpu.pci: gpu.nvlink_domain for gpu in draft.gpus}
    for card in cards(tree, bus):
        fact = card.cleanable(card.hive(bus, named))
        facts.setdefault(card.address, {})[CLEANABLE] = Fact(fact.presence, fact.value, fact.reason)
        if fact.presence is Presence.ABSENT:
            detail = f"it could not be cleaned after a machine had it: {fact.reason}"
            draft.find("gpu_not_cleanable", detail, card.address)
