"""What is usually asked for, and by which weights is room valued?  Read now and then, kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gpuaas.kernel import clock, prepared
from placement.domain.lookahead import Lookahead, expecting
from placement.snapshots.places import Target

RECENT = 2000
"""How many of the latest requests are looked at."""
KEPT_S = 30.0
KEPT = 256

_MIX: Final = """
SELECT r.slots, sum(r.replicas)::int
  FROM (SELECT q.slots, q.replicas, q.pool, q.sku_id FROM admission_admissionrequest q
         ORDER BY q.id DESC LIMIT %(recent)s::int) AS r
  JOIN placement_pool p ON p.name = r.pool AND p.id = %(pool)s
  JOIN tenants_sku s ON s.id = r.sku_id AND s.shape NOT IN ('mig', 'gpu_share')
  JOIN placement_nodefamily f ON f.name = s.family AND f.id = %(family)s
 GROUP BY r.slots
"""
_WEIGHTS: Final = """
SELECT gap, fragment, stranded, broken, number FROM placement_scoring
 ORDER BY number DESC LIMIT 1
"""
_kept: OrderedDict[tuple[object, object], tuple[float, Lookahead]] = OrderedDict()


def lookahead_of(where: Target) -> Lookahead:
    """The demand mix of the latest requests for this pool and family, with the weights in force.

    Up to ``KEPT_S`` seconds old: a preference, never a condition.
    """
    key = (where.pool_id, where.family_id)
    now = clock.monotonic()
    found = _kept.get(key)
    if found is not None and now - found[0] < KEPT_S:
        return found[1]
    counts = dict(
        prepared.rows(_MIX, {"recent": RECENT, "pool": where.pool_id, "family": where.family_id})
    )
    shares = expecting(counts, most=max(where.family_slots, 1))
    weights = prepared.rows(_WEIGHTS, ())
    ahead = Lookahead(shares, *weights[0]) if weights else Lookahead(shares)
    _kept[key] = (now, ahead)
    if len(_kept) > KEPT:
        _kept.popitem(last=False)
    return ahead


def forget() -> None:
    """Read anew at the next look: the weights have changed."""
    _kept.clear()
