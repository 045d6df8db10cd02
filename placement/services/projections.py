"""What do the fleet pages show, and as of when?  A read model, rebuilt from the claims."""

from __future__ import annotations

from gpuaas.kernel import clock
from placement.models import Node
from placement.selectors.nodes import postures_of

BATCH = 500


def projections_refresh() -> int:
    """Bring the projection of every node to its derived posture; returns how many changed.

    A row is written when its posture changed, or when its projection is a minute old.
    """
    changed = 0
    now = clock.db_now()
    ids = list(Node.objects.order_by("num").values_list("pk", flat=True))
    for start in range(0, len(ids), BATCH):
        nodes = {node.pk: node for node in Node.objects.filter(pk__in=ids[start : start + BATCH])}
        for node_id, posture in postures_of(nodes).items():
            node = nodes[node_id]
            moved = node.projected.get("posture") != posture
            old = node.projected_at is None or (now - node.projected_at).total_seconds() > 60
            if moved or old:
                Node.objects.filter(pk=node_id).update(
                    projected={"posture": posture, "free": node.free_count}, projected_at=now
                )
                changed += moved
    return changed
