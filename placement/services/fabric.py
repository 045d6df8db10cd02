"""How does the NVLink domain that a host reports become the one that placement goes by?"""

from __future__ import annotations

from gpuaas.kernel import events
from gpuaas.kernel.actor import system
from placement.domain.fabric import Told, fold
from placement.domain.identity import Difference
from placement.models import Claim, Node
from placement.node_tasks import TopologyReport
from placement.states import LIVE

DISCOVERY = system("discovery")


def told_by(report: TopologyReport) -> list[Told | None]:
    """What each GPU of a report says of its domain; None where nobody asked it."""
    return [
        None
        if gpu.fabric is None
        else Told(
            gpu.fabric.presence.value,
            f"{gpu.fabric.cluster}.{gpu.fabric.clique}" if gpu.fabric.cluster else "",
            gpu.fabric.reason or "",
        )
        for gpu in report.gpus
    ]


def fabric_take(node: Node, report: TopologyReport) -> Difference | None:
    """Fold what a discovery says into the node, which is locked; gives what differs still.

    The generation rises with a change, so that a decision on the old domain is void.
    """
    live = Claim.objects.filter(node_num=node.num, state__in=LIVE).exists()
    found = fold(told_by(report), was=node.fabric, seen=node.fabric_seen, live=live)
    before = {"fabric": node.fabric, "fabric_seen": node.fabric_seen}
    after = {"fabric": found.fabric, "fabric_seen": found.seen}
    if before != after:
        node.fabric, node.fabric_seen = found.fabric, found.seen
        node.generation += 1
        node.save(update_fields=["fabric", "fabric_seen", "generation"])
        events.record(
            kind="placement.node.fabric",
            subject=node,
            actor=DISCOVERY,
            before=before,
            after=after,
            reason="" if found.difference is None else found.difference.detail,
        )
    return found.difference
