"""Which evidence is in what a host reports of itself?  Pure, from the JSON of its reports.

A simulated host has no driver, no IOMMU and no fabric: its devices are files. It says so in the
source of its topology or its UUIDs, and its evidence says so too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from placement.domain.readiness import FAIL, PASS, UNKNOWN, Item, Version

_VERSION: Final = re.compile(r"\d{1,6}(\.\d{1,6}){0,5}")
_VBIOS: Final = re.compile(r"[0-9A-Fa-f]{1,4}(\.[0-9A-Fa-f]{1,4}){1,5}")
_CLEANABLE: Final = "gpu_cleanable"
# Why a host says that a GPU could not be cleaned after a machine had it.
_UNCLEANABLE: Final = {
    "no_reset_file": "the kernel cannot reset it by itself",
    "reset_method_unknown": "the kernel does not say how it would reset it",
    "reset_proves_nothing": "the kernel can only switch its power state or reset its bus: no proof",
    # Of agents from before `reset_proves_nothing` had the bus as well.
    "bus_shared": "only its whole bus can be reset, and something else is on it",
    "hive_shared": "a reset of it resets the other GPUs of its hive, which may be another tenant's",
    "hive_unreadable": "which GPUs its hive has cannot be read",
    "not_amdgpu": "amdgpu does not have it, so nobody can say what is in its memory",
    "memory_not_told": "its driver does not say how much of its memory is in use",
    "errors_not_counted": "its driver does not count its memory errors",
    "bad_pages_not_told": "its driver does not say which pages of its memory are bad",
}
_SIMULATED: Final = "simulated: its devices are files"
DISCOVERED: Final = ("driver", "iommu", "vfio", "fabric", "numa", "firmware")
"""The checks that a discovery speaks of."""


class _Facts:
    """The facts of a report by device and name."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._by_name = {
            (fact.get("device"), fact.get("name")): fact for fact in report.get("facts", ())
        }

    def presence(self, name: str, device: str | None = None) -> str:
        fact = self._by_name.get((device, name))
        return str(fact["presence"]) if fact else "unknown"

    def has(self, name: str, device: str | None = None) -> bool:
        """Whether anything is said of it, be it that it is not known."""
        return (device, name) in self._by_name

    def reason(self, name: str, device: str | None = None) -> str:
        fact = self._by_name.get((device, name)) or {}
        return str(fact.get("reason") or "")

    def value(self, name: str, device: str | None = None) -> str:
        fact = self._by_name.get((device, name)) or {}
        return str(fact.get("value") or "")


def from_discovery(report: Mapping[str, Any], now: datetime) -> list[Item]:
    """The evidence in a discovery: one item a check for the host, and one a device that differs."""
    gpus = list(report.get("gpus", ()))
    facts = _Facts(report)
    numa = _numa(gpus, now)
    if gpus and _simulated(report, gpus):
        said = {"simulated": True}
        made = [
            Item(check, PASS, now, reason=_SIMULATED, facts=said)
            for check in ("driver", "iommu", "vfio", "fabric")
        ]
        firmware = Item("firmware", UNKNOWN, now, reason="simulated: it has none", facts=said)
        return [*made, numa, firmware]
    places = [str(gpu["pci"]) for gpu in gpus if gpu.get("pci")]
    return [
        _driver(facts, places, now),
        *_iommu(facts, places, now),
        _vfio(facts, gpus, now),
        _fabric(facts, report, now),
        numa,
        _firmware(facts, places, now),
    ]


def _simulated(report: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> bool:
    """Whether it was read from a file: only a real host is looked at live."""
    read_from = (report.get("source") or {}).get("format", "live")
    return read_from != "live" or all(gpu.get("uuid_source") == "simulated" for gpu in gpus)


def _driver(facts: _Facts, places: Sequence[str], now: datetime) -> Item:
    version = facts.value("nvidia_driver")
    if version:
        found = {"driver": version}
        words = f"NVIDIA driver {version}"
        return Item("driver", PASS, now, reason=words, version=version_in(version), facts=found)
    if facts.presence("amdgpu_driver") == "present":
        return Item("driver", PASS, now, reason="amdgpu is loaded", facts={"driver": "amdgpu"})
    if places and all(facts.value("driver", place) == "vfio-pci" for place in places):
        words = "every GPU is bound to vfio-pci: no driver can say its version now"
        return Item("driver", UNKNOWN, now, reason=words)
    if facts.presence("nvidia_driver") == "absent":
        return Item("driver", FAIL, now, reason="no GPU driver is loaded")
    return Item("driver", UNKNOWN, now, reason="the host does not say which driver it has")


def _iommu(facts: _Facts, places: Sequence[str], now: datetime) -> list[Item]:
    presence = facts.presence("iommu")
    if presence == "present":
        words = facts.value("iommu")
        host = Item("iommu", PASS, now, reason=words, facts={"iommu": words})
    elif presence == "absent":
        host = Item("iommu", FAIL, now, reason="the kernel has no IOMMU groups: it is off")
    else:
        host = Item("iommu", UNKNOWN, now, reason="the host does not say whether it is on")
    shared = [(place, facts.value("iommu_group_others", place)) for place in places]
    return [
        host,
        *(
            Item("iommu", FAIL, now, device=place, reason=f"its group also has {others}"[:400])
            for place, others in shared
            if others
        ),
    ]


def _vfio(facts: _Facts, gpus: Sequence[Mapping[str, Any]], now: datetime) -> Item:
    """Whether machines may be given GPUs: VFIO is there, and their traces can be taken off."""
    places = [str(gpu["pci"]) for gpu in gpus if gpu.get("pci")]
    never = [one for gpu in gpus if (one := _uncleanable(facts, gpu))]
    if never:
        more = f"; and {len(never) - 1} more GPUs" if len(never) > 1 else ""
        found = {"uncleanable": len(never)}
        return Item("vfio", FAIL, now, reason=f"{never[0]}{more}"[:400], facts=found)
    told = {facts.presence(_CLEANABLE, place) for place in places if facts.has(_CLEANABLE, place)}
    if told == {"unknown"}:
        # Where one says yes, those that machines have were looked at before these got them.
        words = "none of AMD's GPUs is with its driver: whether it could be cleaned is not known"
        return Item("vfio", UNKNOWN, now, reason=words)
    presence = facts.presence("vfio_pci")
    bound = sum(facts.value("driver", place) == "vfio-pci" for place in places)
    if presence == "present" or bound:
        words = f"vfio-pci is loaded and has {bound} of {len(places)} GPUs"
        return Item("vfio", PASS, now, reason=words, facts={"bound": bound})
    if presence == "absent":
        return Item("vfio", FAIL, now, reason="the vfio-pci module is not loaded")
    return Item("vfio", UNKNOWN, now, reason="the host does not say whether it has vfio-pci")


def _uncleanable(facts: _Facts, gpu: Mapping[str, Any]) -> str:
    """Why one of AMD's GPUs could not be cleaned after a machine had it; '' where it could be.

    The host says so of each of them that no machine has. An agent that does not know the question
    cannot do it either.
    """
    place = str(gpu.get("pci") or "")
    reason = facts.reason(_CLEANABLE, place)
    if facts.presence(_CLEANABLE, place) == "absent":
        why = _UNCLEANABLE.get(reason, reason or "its host does not say why")
    elif facts.has(_CLEANABLE, place):
        return ""
    elif gpu.get("uuid_source") == "amdsmi" or facts.value("driver", place) == "amdgpu":
        why = "its host's agent cannot clean AMD's GPUs; upgrade it"
    else:
        return ""
    return f"{place} could not be cleaned after a machine had it ({reason or 'unknown'}): {why}"


def _fabric(facts: _Facts, report: Mapping[str, Any], now: datetime) -> Item:
    switches = len(report.get("nvswitches", ()))
    found = {"nvswitches": switches}
    if not report.get("gpus"):
        return Item("fabric", UNKNOWN, now, reason="no GPU was found", facts=found)
    if not switches:
        return Item("fabric", PASS, now, reason="there is no NVSwitch to manage", facts=found)
    if facts.presence("fabric_manager") == "present":
        words = f"Fabric Manager runs for {switches} NVSwitches"
        return Item("fabric", PASS, now, reason=words, facts=found)
    words = f"{switches} NVSwitches, and Fabric Manager does not run"
    return Item("fabric", FAIL, now, reason=words, facts=found)


def _numa(gpus: Sequence[Mapping[str, Any]], now: datetime) -> Item:
    known = sum(gpu.get("numa") is not None for gpu in gpus)
    found = {"known": known, "gpus": len(gpus)}
    words = f"the NUMA node of {known} of {len(gpus)} GPUs is known"
    verdict = PASS if gpus and known == len(gpus) else UNKNOWN
    return Item("numa", verdict, now, reason=words, facts=found)


def _firmware(facts: _Facts, places: Sequence[str], now: datetime) -> Item:
    """The lowest VBIOS of the host's GPUs: a baseline is met by all or not at all."""
    told = sorted({facts.value("vbios", place) for place in places} - {""})
    bios = facts.value("bios_version")
    found = {"vbios": told, "bios": bios}
    versions = [firmware_in(text) for text in told]
    unsaid = [place for place in places if not facts.value("vbios", place)]
    if not places or unsaid or not all(versions):
        words = f"the VBIOS of {len(unsaid) or len(places)} GPUs cannot be read"
        return Item("firmware", UNKNOWN, now, reason=words, facts=found)
    words = f"VBIOS {', '.join(told)}"[:400]
    return Item("firmware", PASS, now, reason=words, version=min(versions), facts=found)


def from_report(conditions: Iterable[Mapping[str, Any]], now: datetime) -> Item:
    """Whether machines can run on the host, as its report says."""
    missing = [str(c["detail"]) for c in conditions if c["code"] == "prerequisite_missing"]
    if missing:
        return Item("runtime", FAIL, now, source="observed", reason="; ".join(missing)[:400])
    return Item("runtime", PASS, now, source="observed", reason="nothing is said to be missing")


def version_in(text: str) -> Version:
    """A driver's version in numbers; empty when it is not made of them."""
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else ()


def firmware_in(text: str) -> Version:
    """A VBIOS version in numbers: its parts are hexadecimal."""
    return tuple(int(part, 16) for part in text.split(".")) if _VBIOS.fullmatch(text) else ()
