"""How much of what is idle can each product not use now, and what would help?  Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.hints import worded
from placement.domain.part_stranding import PART_HELPS, PartStranding, part_stranding
from placement.domain.stranding import HELPS, Stranding, stranding
from placement.services.engine import kept_nodes
from placement.services.queue import waiting
from placement.snapshots.stranding import cut_slots, idle_hosts, parts_sold_now, sold_now


@dataclass(frozen=True, slots=True)
class Account:
    """One product's account, with where it is sold from."""

    pool: str
    family: str
    found: Stranding

    def helps(self) -> list[tuple[str, int, str]]:
        """(cause, slots, what would help), the largest first."""
        causes = sorted(self.found.causes.items(), key=lambda one: (-one[1], one[0]))
        return [(cause, slots, HELPS[cause]) for cause, slots in causes]


def fragmentation_list(sku: str = "") -> list[Account]:
    """The account of every published product of slots or hosts, or of one.

    Raises NotFound for another name, unless it is that of a part. Three statements whatever the
    fleet's size, and those of the queue's head where anybody waits.
    """
    sold = sold_now(sku)
    if sku and not sold:
        if parts_sold_now(sku):
            return []
        raise NotFound
    hosts = idle_hosts(_kept())
    return [
        Account(pool, family, stranding(product, hosts.get((pool, family), ())))
        for (pool, family), product in sold
    ]


@dataclass(frozen=True, slots=True)
class PartAccount:
    """The account of one product that is a part of a GPU, with where it is sold from."""

    pool: str
    family: str
    found: PartStranding

    def helps(self) -> list[tuple[str, int, str]]:
        """(cause, thousandths of a GPU, what would help), the largest first."""
        causes = sorted(self.found.causes.items(), key=lambda one: (-one[1], one[0]))
        return [(cause, milli, worded(PART_HELPS[cause])) for cause, milli in causes]


def part_fragmentation_list(sku: str = "") -> list[PartAccount]:
    """The account of every published product that is a part, or of one; of another name, none."""
    sold = parts_sold_now(sku)
    slots = cut_slots(_kept()) if sold else {}
    return [
        PartAccount(pool, family, part_stranding(product, slots.get((pool, family), ())))
        for (pool, family), product in sold
    ]


def _kept() -> list[int]:
    """The nodes that are kept free for who has waited longest, of all pools."""
    pools = AdmissionRequest.objects.filter(state=RequestState.QUEUED).exclude(pool="")
    kept: list[int] = []
    for pool in sorted(set(pools.values_list("pool", flat=True))):
        kept += kept_nodes(waiting(pool))
    return kept
