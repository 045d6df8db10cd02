"""What is usually asked for, and by which weights is room valued?  Read now and then, kept."""

from __future__ import annotations

from typing import Final

from gpuaas.kernel import prepared
from placement.domain.lookahead import Lookahead, expecting
from placement.snapshots.keeping import Kept
from placement.snapshots.places import Target

RECENT = 2000
"""How many of the latest requests are looked at."""
KEPT_S = 30.0

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
_kept: Kept[Lookahead] = Kept(seconds=KEPT_S)


def lookahead_of(where: Target) -> Lookahead:
    """The demand mix of the latest requests for this pool and family, with the weights in force.

    Up to ``KEPT_S`` seconds old: a preference, never a condition.
    """
    return _kept.of((where.pool_id, where.family_id), lambda: _read(where))


def _read(where: Target) -> Lookahead:
    counts: dict[int, int] = dict(
        prepared.rows(_MIX, {"recent": RECENT, "pool": where.pool_id, "family": where.family_id})
    )
    shares = expecting(counts, most=max(where.family_slots, 1))
    weights = prepared.rows(_WEIGHTS, ())
    return Lookahead(shares, *weights[0]) if weights else Lookahead(shares)


def forget() -> None:
    """Read anew at the next look: the weights have changed."""
    _kept.clear()
