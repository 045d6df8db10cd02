"""What is sold now, at which price, and how much of it could be had?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from placement.errors import PoolDedicated
from placement.models import Image, PlacementTerms
from placement.models.maintenance import OPEN_THEN, SETTLE_S
from placement.selectors.part_offers import PartRoom, part_room
from tenants.models import PARTS, Shape, Sku
from tenants.models.catalogue import machine_of
from tenants.selectors import price_now

_OFFERS: Final = (
    """
SELECT s.name, s.title, s.description, s.shape, s.family, s.pool, s.slots_min, s.slots_max,
       rc.name, s.units_milli, s.exclusive_nic, s.isolation,
       s.part_profile, s.part_milli, s.part_memory_mib,
       coalesce(p.hour_micro, 0), coalesce(p.currency, 'USD'), a.nodes, a.slots, a.whole,
       a.largest, a.ready, a.closing, a.shorter_s
  FROM tenants_sku s
  JOIN tenants_resourceclass rc ON rc.id = s.resource_class_id
  LEFT JOIN LATERAL (
       SELECT hour_micro, currency FROM tenants_skuprice pr
        WHERE pr.sku_id = s.id AND pr.effective_from <= clock_timestamp()
        ORDER BY pr.effective_from DESC LIMIT 1) p ON true
  LEFT JOIN LATERAL (
       SELECT count(*) FILTER (WHERE t.takes AND n.free_count > 0) AS nodes,
              coalesce(sum(n.free_count) FILTER (WHERE t.takes), 0) AS slots,
              count(*) FILTER (WHERE t.takes AND n.slot_count > 0
                                AND n.free_count = n.slot_count) AS whole,
              coalesce(max(CASE WHEN s.exclusive_nic AND s.shape <> 'baremetal'
                             THEN bit_count((n.free_mask & n.exclusive_mask)::bit(64))
                             ELSE n.free_count END) FILTER (WHERE t.takes), 0) AS largest,
              count(*) FILTER (
                  WHERE n.state = 'ready' AND n.slot_count >= s.slots_min
                    AND (NOT s.exclusive_nic OR s.shape = 'baremetal'
                         OR bit_count(n.exclusive_mask::bit(64)) >= s.slots_min)
                    AND NOT EXISTS (
                        SELECT FROM placement_placementterms pt
                         WHERE pt.about IN ('sku:' || s.name, 'pool:' || s.pool)
                           AND NOT (n.driver >= pt.driver_min AND n.runtime >= pt.runtime_min
                                    AND (pt.driver_below = '{}'
                                         OR (n.driver <> '{}' AND n.driver < pt.driver_below))))
              ) AS ready,
              count(*) FILTER (WHERE t.closing AND n.free_count >= t.least) AS closing,
              max(floor(extract(epoch FROM n.free_until - statement_timestamp())))
                  FILTER (WHERE t.closing AND n.free_count >= t.least) AS shorter_s
         FROM placement_node n
         JOIN placement_pool pl ON pl.id = n.pool_id AND pl.name = s.pool
         JOIN placement_nodefamily f ON f.id = n.family_id AND f.name = s.family
        CROSS JOIN LATERAL (
              SELECT o.works AND o.stays AS takes, o.works AND NOT o.stays AS closing,
                     CASE s.shape WHEN 'baremetal' THEN greatest(n.slot_count, 1)
                                  ELSE s.slots_min END AS least
                FROM (SELECT n.schedulable AND n.takes IN (
                                 'any', CASE s.shape WHEN 'baremetal' THEN 'baremetal'
                                                     ELSE 'slices' END) AS works,
                             """
    + OPEN_THEN
    + """ AS stays) o) t
        WHERE n.intended <> CASE s.shape WHEN 'baremetal' THEN 'slices' ELSE 'baremetal' END
       ) a ON true
 WHERE s.state = 'published'
 ORDER BY s.name
"""
)


@dataclass(frozen=True, slots=True)
class Offer:
    """One SKU with its price and what of it is available now.

    ``code`` says why nothing is available; it is empty when something is. ``closing_nodes`` have
    room, but maintenance begins there before what is asked for would end; what ends by itself
    within ``shorter_fits_s`` seconds may still be placed there (None where that helps nobody).
    """

    sku: str
    title: str
    description: str
    shape: str
    family: str
    pool: str
    slots_min: int
    slots_max: int
    resource_class: str
    units_milli: int
    exclusive_nic: bool
    isolation: str
    part_profile: str
    part_milli: int | None
    part_memory_mib: int | None
    price_hour_micro: int
    currency: str
    available_nodes: int
    available_slots: int
    largest_fit: int
    code: str
    detail: str
    closing_nodes: int = 0
    shorter_fits_s: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether it is a part of one GPU."""
        return self.shape in PARTS

    @property
    def what(self) -> str:
        """What one unit of it is, in words."""
        if self.part_profile:
            return f"MIG instance {self.part_profile}"
        if self.part_milli:
            return f"{self.part_milli / 10:g} % of a GPU with {self.part_memory_mib} MiB"
        return "whole node" if self.shape == Shape.BAREMETAL else "GPU slots"


NO_ROOM = PartRoom()
POOL: Final = "pool:"


def _offer(row: tuple[Any, ...], parts: Mapping[str, PartRoom]) -> Offer:
    *head, nodes, slots, whole, largest, ready, closing, shorter_s = row
    shape, slots_min, slots_max = head[3], head[6], head[7]
    if shape == Shape.BAREMETAL:
        fit, least, count = (1 if whole else 0), 1, whole
        detail = f"{whole} whole nodes free."
    elif shape in PARTS:
        room = parts.get(head[0], NO_ROOM)
        fit, least, count, slots = min(room.parts, 1), 1, len(room.nodes), room.parts
        ready, closing, shorter_s = room.ready, len(room.closing), room.shorter_s
        detail = f"{room.parts} of them free on {count} nodes."
    else:
        fit, least, count = min(largest, slots_max), slots_min, nodes
        detail = f"{slots} slots free on {nodes} nodes; {largest} on the best."
    code = ""
    if not ready:
        code, detail = "never_fits", "No approved node can ever hold this SKU: it is not sold."
        if shape in PARTS:
            detail = "No slot is cut so that it could ever give this: it is not sold."
    elif fit < least:
        code, fit = "sku_unavailable", 0
    shorter = max(int(shorter_s) - SETTLE_S, 0) if shorter_s else None
    if ready and closing:
        detail = f"{detail} {_windows(closing, shorter)}"
    free = 0 if shape == Shape.BAREMETAL else int(slots)
    values: tuple[Any, ...] = (*head, count, free, fit, code, detail, closing, shorter or None)
    return Offer(*values)


def _windows(nodes: int, shorter: int | None) -> str:
    """What announced maintenance rules out."""
    said = f"On {nodes} more node{'s' if nodes > 1 else ''} maintenance begins before it would end"
    return f"{said}; for {shorter} seconds at most it fits there." if shorter else f"{said}."


def offer_list(*, lasts_s: int | None = None, tenant_id: UUID | None = None) -> list[Offer]:
    """Every published SKU with what is available now (counts, never hosts).

    For a lease that ends by itself after ``lasts_s`` seconds; None: for one without an end. Of a
    pool that is dedicated to others, ``tenant_id`` is told that and no count.
    """
    parts = part_room(lasts_s=lasts_s)
    with connection.cursor() as cursor:
        cursor.execute(_OFFERS, {"lasts": lasts_s})
        offers = [_offer(row, parts) for row in cursor.fetchall()]
    if tenant_id is None:
        return offers
    shut = _pools_of_others(tenant_id)
    return [_shut(offer) if offer.pool in shut else offer for offer in offers]


def _pools_of_others(tenant_id: UUID) -> set[str]:
    """The pools that are dedicated, and not to this tenant."""
    rows = PlacementTerms.objects.filter(about__startswith=POOL).exclude(tenants=[])
    return {
        about.removeprefix(POOL)
        for about, tenants in rows.values_list("about", "tenants")
        if str(tenant_id) not in tenants
    }


def _shut(offer: Offer) -> Offer:
    return replace(
        offer,
        available_nodes=0,
        available_slots=0,
        largest_fit=0,
        code=PoolDedicated.code,
        detail=f"The pool {offer.pool} is for other tenants.",
        closing_nodes=0,
        shorter_fits_s=None,
    )


def price_of(sku: Sku, slots: int) -> tuple[int, str]:
    """Millionths an hour for a size, and the currency; a whole node is one unit."""
    hour, currency = price_now(sku)
    return hour * max(slots, 1), currency


def image_list(shape: str = "") -> QuerySet[Image]:
    """What can be started, optionally for one shape."""
    rows = Image.objects.filter(retired_at__isnull=True).order_by("name")
    return rows.filter(shapes__contains=[machine_of(shape)]) if shape else rows
