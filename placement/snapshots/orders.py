"""What does a request meet?  Authority, images, keys and free capacity, frozen, in one read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from admission.domain.headroom import Headroom
from admission.domain.locality import Data, Store
from admission.domain.sharing import SharingAnswer
from admission.snapshots import AUTHORITY, WIDTH, Authority, authority_from
from gpuaas.kernel import prepared
from placement.domain.fit import Place
from placement.domain.order import AllocationOrder
from placement.domain.terms import FREE, Terms, merged
from placement.models.maintenance import OPEN_THEN
from placement.snapshots.places import FENCED, HELD, Target, held_of
from tenants.models.catalogue import machine_of

MOST_SLOTS = 32_767
DEFAULT_IMAGES = {"gpu_slice": "ubuntu-24.04-cuda", "baremetal": "ubuntu-24.04-baremetal"}

_ASK_ONE: Final = """
WITH ask AS (
    SELECT 1 AS i, %(tenant)s::uuid AS tenant, %(project)s::uuid AS project, %(sku)s::text AS sku,
           %(slots)s::int AS slots, %(image)s::text AS image, %(keys)s::uuid[] AS keys,
           %(data)s::text[] AS data, %(storage)s::text[] AS storage)
"""
_ASK_MANY: Final = """
WITH ask AS (
    SELECT i, tenant, project, sku, slots, image, keys::uuid[],
           ARRAY(SELECT jsonb_array_elements_text(data::jsonb)) AS data,
           ARRAY(SELECT jsonb_array_elements_text(storage::jsonb)) AS storage
      FROM unnest(%(tenant)s::uuid[], %(project)s::uuid[], %(sku)s::text[], %(slots)s::int[],
                  %(image)s::text[], %(keys)s::text[], %(data)s::text[], %(storage)s::text[])
           WITH ORDINALITY AS x(tenant, project, sku, slots, image, keys, data, storage, i))
"""
_MET: Final = (
    ", who AS MATERIALIZED ("
    + AUTHORITY
    + """)
SELECT who.*,
       EXISTS (SELECT FROM placement_image m
                WHERE m.name = CASE WHEN ask.image <> '' THEN ask.image
                                    WHEN who.shape = 'baremetal' THEN %(metal)s::text
                                    ELSE %(slice)s::text END
                  AND m.retired_at IS NULL
                  AND m.shapes ? CASE WHEN who.shape IN ('mig', 'gpu_share') THEN 'gpu_slice'
                                      ELSE who.shape END),
       CASE WHEN ask.keys <> '{}' THEN (
            SELECT array_agg(ARRAY[k.id::text, k.public_key]) FROM tenants_sshkey k
             WHERE k.tenant_id = who.tenant_id AND k.id = ANY (ask.keys)) END,
       pool.id, family.id, family.slots,
       CASE WHEN ask.data <> '{}' THEN placement_datasets(who.tenant_id, ask.data) END,
       CASE WHEN ask.data <> '{}' OR ask.storage <> '{}' THEN placement_stores() END,
       CASE WHEN who.caps IS NOT NULL THEN placement_usage(who.tenant_id) END,
       CASE WHEN EXISTS (SELECT FROM placement_placementterms)
            THEN placement_terms(who.sku, who.tier, who.pool) END,
       CASE WHEN EXISTS (SELECT FROM placement_separation)
            THEN placement_never_with(who.tenant_id) END,
       """
    + FENCED
    + "\n"
)
_PLACES: Final = (
    """
     , EXISTS (SELECT FROM admission_admissionrequest q
                WHERE q.state = 'queued' AND q.pool = who.pool)
     , (SELECT string_agg(concat_ws(' ', n.num, n.generation, n.free_mask, n.slot_count,
                                    n.exclusive_mask, CASE WHEN """
    + FENCED
    + " THEN "
    + HELD
    + """ ELSE '?' END, n.layout), E'\\n')
          FROM (SELECT who.shape = 'baremetal' AS whole,
                       who.exclusive_nic AND who.shape <> 'baremetal' AS nic,
                       CASE WHEN who.shape = 'baremetal' THEN family.slots
                            ELSE coalesce(ask.slots, who.slots_min) END AS slots
               ) AS size
         CROSS JOIN LATERAL generate_series(size.slots, family.slots) AS level(free)
         CROSS JOIN LATERAL (
               SELECT n.* FROM placement_node n
                WHERE n.pool_id = pool.id AND n.family_id = family.id AND n.schedulable
                  AND n.free_count >= level.free AND n.free_count <= level.free
                  AND (NOT size.whole OR n.free_count = n.slot_count)
                  AND n.takes IN ('any', CASE WHEN size.whole THEN 'baremetal'
                                                 ELSE 'slices' END)
                  AND (NOT size.nic OR bit_count((n.free_mask & n.exclusive_mask)::bit(64))
                                       >= size.slots)
                  AND """
    + OPEN_THEN
    + """
                ORDER BY n.free_count, n.num LIMIT 4) AS n)
"""
)
_FROM_ONE: Final = """
  FROM ask CROSS JOIN who
"""
_FROM_MANY: Final = """
  FROM who JOIN ask USING (i)
"""
_HOMES: Final = """
  LEFT JOIN placement_pool pool ON pool.name = who.pool
  LEFT JOIN placement_nodefamily family ON family.name = who.family
"""
_LOOK_ONE: Final = _ASK_ONE + _MET + _PLACES + _FROM_ONE + _HOMES
_LOOK_MANY: Final = _ASK_MANY + _MET + _FROM_MANY + _HOMES + " ORDER BY who.i"


@dataclass(frozen=True, slots=True)
class Ask:
    """Who asks for what, with which action, and how many allocations of it."""

    tenant_id: UUID
    project_id: UUID
    order: AllocationOrder
    action: str = "allocation.create"
    replicas: int = 1
    workload_id: UUID | None = None
    subject_id: UUID | None = None
    sharing: SharingAnswer | None = None
    headroom: Headroom | None = None
    nodes: tuple[str, ...] = ()
    """The only nodes that the platform lets it go to; empty: any."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What the request keeps in its ``spec`` beside the order."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant with caps has: counts, and money of this month in millionths."""

    live: int
    waiting: int
    accrued_micro: int
    hour_micro: int
    seconds_left: int


@dataclass(frozen=True, slots=True)
class Look:
    """What an order meets: authority first, then what it names, then what is free."""

    authority: Authority
    image_known: bool
    keys: dict[UUID, str]
    where: Target | None
    pool_known: bool
    data: tuple[Data, ...]
    stores: tuple[Store, ...]
    usage: Usage | None
    terms: Terms = FREE
    fenced: bool = False
    """Whether anybody was promised wiring or a host of their own."""
    queue_waits: bool = False
    """Whether others wait in the SKU's pool; only ``look`` asks."""
    places: tuple[Place, ...] | None = None
    """A few nodes of every free count that holds the size; only ``look`` reads them."""


def image_of(order: AllocationOrder, shape: str) -> str:
    """The image that is started: the one named, or the shape's own."""
    return order.image or DEFAULT_IMAGES[machine_of(shape)]


def _slots(order: AllocationOrder) -> int | None:
    """The size as the database takes it; one that nobody sells is refused by its own gate."""
    return None if order.slots is None else max(0, min(order.slots, MOST_SLOTS))


def _defaults() -> dict[str, str]:
    return {"slice": DEFAULT_IMAGES["gpu_slice"], "metal": DEFAULT_IMAGES["baremetal"]}


def _place(line: str) -> Place:
    num, generation, free, count, exclusive, held, layout = (*line.split(" ", 6), "")[:7]
    return Place(
        int(num),
        int(generation),
        int(free),
        int(count),
        layout,
        int(exclusive),
        None if held == "?" else held_of(held),
    )


def _data(row: Sequence[Any]) -> Data:
    name, version, zones, racks, nodes, required, storage = row
    return Data(name, version, tuple(zones), tuple(racks), tuple(nodes), required, tuple(storage))


def _store(row: Sequence[Any]) -> Store:
    name, kind, version, zones = row
    return Store(name, kind, version, tuple(zones))


def _terms(rows: str | None, never: Sequence[UUID] | None) -> Terms:
    terms = merged(json.loads(rows)) if rows else FREE
    return replace(terms, never=tuple(never)) if never else terms


def _looked(row: Sequence[Any]) -> Look:
    known, keys, pool, family, slots, data, stores, usage, terms, never, fenced, *more = row[WIDTH:]
    waits, places = more or (False, None)
    seen = tuple(map(_place, places.split("\n"))) if places else ()
    return Look(
        authority=authority_from(row),
        image_known=known,
        keys={UUID(key): text for key, text in keys} if keys else {},
        where=Target(pool, family, slots) if pool and family else None,
        pool_known=pool is not None,
        data=tuple(map(_data, json.loads(data))) if data else (),
        stores=tuple(map(_store, json.loads(stores))) if stores else (),
        usage=Usage(*usage) if usage else None,
        terms=_terms(terms, never),
        fenced=fenced,
        queue_waits=waits,
        places=seen if more else None,
    )


def look(ask: Ask) -> Look | None:
    """Everything one order meets, or None when its tenant or SKU does not exist.

    The nodes come from an index probe, whatever the fleet's size.
    """
    found = prepared.rows(
        _LOOK_ONE,
        {
            "tenant": ask.tenant_id,
            "project": ask.project_id,
            "sku": ask.order.sku,
            "slots": _slots(ask.order),
            "lasts": ask.order.max_duration_s,
            "image": ask.order.image,
            # An empty list is written faster as the text that it becomes.
            "keys": list(ask.order.ssh_key_ids) or "{}",
            "data": list(ask.order.datasets) or "{}",
            "storage": list(ask.order.storage) or "{}",
            **_defaults(),
        },
    )
    return _looked(found[0]) if found else None


def look_many(asks: Sequence[Ask]) -> list[Look | None]:
    """What each order of a batch meets, without the free capacity: it changes by each."""
    found = prepared.rows(
        _LOOK_MANY,
        {
            "tenant": [ask.tenant_id for ask in asks],
            "project": [ask.project_id for ask in asks],
            "sku": [ask.order.sku for ask in asks],
            "slots": [_slots(ask.order) for ask in asks],
            "image": [ask.order.image for ask in asks],
            "keys": ["{" + ",".join(map(str, ask.order.ssh_key_ids)) + "}" for ask in asks],
            "data": [json.dumps(ask.order.datasets) for ask in asks],
            "storage": [json.dumps(ask.order.storage) for ask in asks],
            **_defaults(),
        },
    )
    looks = {row[0]: _looked(row) for row in found}
    return [looks.get(i) for i in range(1, len(asks) + 1)]
