"""What does an order of a part of a GPU mean, and may it share that GPU?"""

from __future__ import annotations

from admission.domain.sharing import OWN_TENANT, PART_MODES, SharingAnswer, eligible
from admission.snapshots import Authority
from gpuaas.kernel.errors import FieldError, InvalidRequest
from placement.domain.order import AllocationOrder
from placement.domain.parts import MIG, SHARE, PartAsk


def one_part(order: AllocationOrder, who: Authority) -> None:
    """A part is leased alone: more of them are more allocations, or replicas of a workload."""
    together = {"/together": order.together, "/close": order.close, "/apart": order.apart}
    wrong = [field for field, wish in together.items() if wish]
    if order.slots not in (None, 1):
        wrong.insert(0, "/slots")
    if wrong:
        raise InvalidRequest(
            f"{who.sku} is one part of one GPU: leave {wrong[0][1:]} out, and ask once for each.",
            errors=tuple(
                FieldError(field, "not_allowed", "a part is leased and placed by itself")
                for field in wrong
            ),
        )


def part_of(who: Authority) -> PartAsk | None:
    """The part that is sold, if it is one."""
    if who.shape not in PART_MODES:
        return None
    kind = MIG if who.part_profile else SHARE
    return PartAsk(kind, who.part_profile, who.part_milli or 0, who.part_memory_mib or 0)


def sharing_of(who: Authority, neighbours: str) -> SharingAnswer | None:
    """Whether the tenant's tier lets it share a GPU by what is sold; None where nothing is shared.

    Where its node takes nobody else's work, those beside it on the GPU are itself.
    """
    if who.shape not in PART_MODES:
        return None
    return eligible(
        "node" if neighbours == OWN_TENANT else PART_MODES[who.shape],
        shape=who.shape,
        tier_isolation=who.tier_isolation,
        sku_isolation=who.sku_isolation,
    )
