"""What is being asked for?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

WHOLE_NODE = 0


@dataclass(frozen=True, slots=True)
class AllocationOrder:
    """One request for capacity, as the tenant wrote it.

    ``slots`` is None for the SKU's smallest size; whole-node SKUs take no number. ``storage``
    names kinds of storage that have to be reached from where it runs. ``sharing`` is the mode
    of the workload that it is for. Of several allocations ``together`` is the level that all
    must be within, ``close`` the one that they should be within (fabric, rack, block or zone), and
    ``apart`` keeps them on different nodes. ``own`` binds it to nodes on which the tenant has
    something (with), or has nothing (apart). ``max_duration_s`` is after how many seconds at most
    it is given back by itself; None lasts until somebody releases it.
    """

    sku: str
    slots: int | None = None
    name: str = ""
    image: str = ""
    ssh_key_ids: tuple[UUID, ...] = ()
    wait: bool = False
    tier: str = ""
    zones: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    band: int | None = None
    sharing: str = ""
    together: str = ""
    close: str = ""
    apart: bool = False
    own: str = ""
    max_duration_s: int | None = None


def order_of_spec(
    spec: Mapping[str, Any], *, sku: str, slots: int | None, **members: Any
) -> AllocationOrder:
    """The order that a request or a workload keeps in its ``spec``, and beside it."""
    return AllocationOrder(
        sku=sku,
        slots=slots,
        image=spec.get("image", ""),
        ssh_key_ids=tuple(UUID(key) for key in spec.get("ssh_keys", [])),
        zones=tuple(spec.get("zones", [])),
        datasets=tuple(spec.get("datasets", [])),
        storage=tuple(spec.get("storage", [])),
        sharing=spec.get("sharing", ""),
        together=spec.get("together", ""),
        close=spec.get("close", ""),
        apart=spec.get("apart", False),
        own=spec.get("own", ""),
        **members,
    )
