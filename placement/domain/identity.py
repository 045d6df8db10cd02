"""Is a host still what was approved?  What differs, by name, and what follows.

Slots follow the UUIDs of their GPUs, not addresses and not numbers. A difference never changes an
approved slot; where the GPU cannot be vouched for, the slot is blocked until somebody decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NOTE, BLOCK, OFFER = "note", "block", "offer"
SAID: Final = 4
"""How many devices a sentence names."""
OUTCOMES: Final = (NOTE, BLOCK, OFFER)
"""Nothing follows; the slot is blocked; the GPU may be approved as a new slot."""

ADDRESS_CHANGED = "address_changed"
BUNDLE_CHANGED = "bundle_changed"
CARD_SWAPPED = "card_swapped"
CARD_VANISHED = "card_vanished"
CARD_ADDED = "card_added"
CARD_ELSEWHERE = "card_elsewhere"
UUID_UNKNOWN = "uuid_unknown"
DUPLICATE_UUID = "duplicate_uuid"
IOMMU_SHARED = "iommu_shared"
FABRIC_CHANGED = "fabric_changed"
HOST_CLONED = "host_cloned"
HOST_RENAMED = "host_renamed"
NEW_BOOT = "new_boot"

CODES: Final = {
    ADDRESS_CHANGED: NOTE,
    BUNDLE_CHANGED: BLOCK,
    CARD_SWAPPED: BLOCK,
    CARD_VANISHED: BLOCK,
    CARD_ADDED: OFFER,
    CARD_ELSEWHERE: NOTE,
    UUID_UNKNOWN: BLOCK,
    DUPLICATE_UUID: BLOCK,
    IOMMU_SHARED: BLOCK,
    FABRIC_CHANGED: NOTE,
    HOST_CLONED: BLOCK,
    HOST_RENAMED: NOTE,
    NEW_BOOT: NOTE,
}
"""Every condition with its declared outcome."""


@dataclass(frozen=True, slots=True)
class SlotIdentity:
    """An approved slot: its GPU, where that was, and what is handed over with it."""

    index: int
    uuid: str
    pci: str
    bundle: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A GPU as a discovery tells it; empty where it cannot be read."""

    uuid: str
    pci: str
    bundle: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """One named difference. ``slot_index`` is None where it is about no approved slot."""

    code: str
    slot_index: int | None
    uuid: str
    detail: str
    approved: Mapping[str, Any] = field(default_factory=dict)
    discovered: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """What follows, as declared."""
        return CODES[self.code]


def differences(
    approved: Iterable[SlotIdentity],
    seen: Iterable[SeenGpu],
    *,
    elsewhere: frozenset[str] = frozenset(),
    doubled: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """What a discovery says otherwise than approved.

    ``elsewhere``: UUIDs that other hosts have; ``doubled``: UUIDs that the host itself found twice
    and therefore left out of ``seen``.
    """
    slots, gpus = list(approved), list(seen)
    counts = Counter(gpu.uuid for gpu in gpus if gpu.uuid)
    twice = doubled | {uuid for uuid, count in counts.items() if count > 1}
    here = {gpu.uuid: gpu for gpu in gpus if gpu.uuid and gpu.uuid not in twice}
    places = {gpu.pci: gpu for gpu in gpus if gpu.pci}
    mine = {slot.uuid for slot in slots}
    found: list[Difference] = []
    if here and not mine & here.keys() and here.keys() <= elsewhere:
        found.append(_cloned(here))
    for slot in slots:
        found += _of_slot(slot, here.get(slot.uuid), places.get(slot.pci), twice)
    for uuid, gpu in here.items():
        if uuid in mine:
            continue
        code, what = CARD_ADDED, "a GPU that no slot has; approve it to sell it"
        if uuid in elsewhere:
            code, what = CARD_ELSEWHERE, "another host has this GPU; retire that host first"
        elif not slots:
            # Nothing is approved yet, so nothing is otherwise.
            continue
        found.append(Difference(code, None, uuid, what, {}, _shown(gpu)))
    found += [
        Difference(DUPLICATE_UUID, None, uuid, "two GPUs say this UUID; neither is believed")
        for uuid in sorted(twice - mine)
    ]
    return tuple(found)


def host_differences(
    *, hostname: str, was_hostname: str, boot: str, was_boot: str
) -> tuple[Difference, ...]:
    """What is new about the host as a whole; nothing when it was never discovered before."""
    found: list[Difference] = []
    if was_hostname and hostname != was_hostname:
        detail = f"it calls itself {hostname}, before {was_hostname}"
        names = {"hostname": was_hostname}, {"hostname": hostname}
        found.append(Difference(HOST_RENAMED, None, "", detail, *names))
    if was_boot and boot != was_boot:
        boots = {"boot_id": was_boot}, {"boot_id": boot}
        found.append(Difference(NEW_BOOT, None, "", "it has booted and was looked at anew", *boots))
    return tuple(found)


def shared_groups(
    approved: Iterable[SlotIdentity], beside: Mapping[str, Sequence[str]]
) -> tuple[Difference, ...]:
    """Slots that cannot be given to a machine alone. ``beside``: by UUID, what would go with it."""
    return tuple(
        Difference(IOMMU_SHARED, slot.index, slot.uuid, shared(others), {}, {"beside": [*others]})
        for slot in approved
        if (others := beside.get(slot.uuid))
    )


def shared(others: Sequence[str]) -> str:
    """Why a slot with these devices in its IOMMU groups is not sold."""
    more = f" and {len(others) - SAID} more" if len(others) > SAID else ""
    return (
        f"its IOMMU group also has {', '.join(others[:SAID])}{more}: a machine would get them too"
    )


def _of_slot(
    slot: SlotIdentity, gpu: SeenGpu | None, there: SeenGpu | None, twice: frozenset[str]
) -> list[Difference]:
    """The differences of one slot; ``there`` is what is now at its old address."""

    def differs(code: str, detail: str, other: SeenGpu | None = None) -> Difference:
        now = _shown(other) if other else {}
        before = {"pci": slot.pci, **slot.bundle}
        return Difference(code, slot.index, slot.uuid, detail, before, now)

    if slot.uuid in twice:
        return [differs(DUPLICATE_UUID, "two GPUs say its UUID; neither is believed")]
    if gpu is None:
        if there is None or there.uuid in twice:
            return [differs(CARD_VANISHED, "its GPU is reported no longer")]
        if not there.uuid:
            detail = "the GPU at its address cannot say who it is; this is unknown, not absent"
            return [differs(UUID_UNKNOWN, detail, there)]
        return [differs(CARD_SWAPPED, f"at its address is now {there.uuid}", there)]
    found: list[Difference] = []
    if slot.pci and gpu.pci and slot.pci != gpu.pci:
        detail = f"the same GPU, now at {gpu.pci} instead of {slot.pci}"
        found.append(differs(ADDRESS_CHANGED, detail, gpu))
    changed = sorted(
        name
        for name in slot.bundle.keys() | gpu.bundle.keys()
        if slot.bundle.get(name) != gpu.bundle.get(name)
    )
    if changed:
        detail = f"reported otherwise than approved: {', '.join(changed)}"
        found.append(differs(BUNDLE_CHANGED, detail, gpu))
    return found


def _cloned(here: Mapping[str, SeenGpu]) -> Difference:
    detail = f"all of its {len(here)} GPUs are those of other hosts: a copy of another host's disk?"
    return Difference(HOST_CLONED, None, "", detail, {}, {"gpus": sorted(here)})


def _shown(gpu: SeenGpu) -> dict[str, Any]:
    return {"gpu_uuid": gpu.uuid, "pci": gpu.pci, **gpu.bundle}
