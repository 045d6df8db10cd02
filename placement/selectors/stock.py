"""Which pools and kinds of hosts are there, and how many hosts has each?"""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet

from placement.models import NodeFamily, Pool
from placement.states import NodeState

_LIVE = Count("nodes", filter=~Q(nodes__state=NodeState.RETIRED))


def pool_list() -> QuerySet[Pool]:
    """Pools by name, each with ``node_total``: how many of its hosts are not retired."""
    return Pool.objects.annotate(node_total=_LIVE).order_by("name")


def family_list() -> QuerySet[NodeFamily]:
    """Kinds of hosts by name, each with ``node_total`` likewise."""
    return NodeFamily.objects.annotate(node_total=_LIVE).order_by("name")
