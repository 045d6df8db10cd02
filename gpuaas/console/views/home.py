"""What does an operator see first: the fleet's postures, and the work that waits for a person?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.console.fleet import Strip, posture_counts, strips_of
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from placement.domain.capacity import POSTURES
from placement.models import Allocation, Node
from placement.selectors import node_list
from placement.states import AllocationState, NodeState
from tenants.selectors import tenant_list
from tenants.states import TenantState

SHOWN = 10
ROOMY = 60
"""Above this many nodes the map shows names and cells; the words are kept for screen readers."""


class Home(ConsolePage):
    """Postures, waiting work, the last events."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        strips = strips_of(node_list().exclude(state=NodeState.RETIRED))
        blocked = Allocation.objects.filter(state=AllocationState.CLEANUP_BLOCKED)
        return self.page(
            "console/home.html",
            counts=posture_counts(strips),
            total=len(strips),
            free=sum(s.free for s in strips),
            slots=sum(len(s.cells) for s in strips),
            pending=list(tenant_list().filter(state=TenantState.PENDING)[:SHOWN]),
            verifying=list(Node.objects.filter(state=NodeState.VERIFYING).order_by("name")[:SHOWN]),
            blocked=list(blocked.select_related("tenant", "node").order_by("state_since")[:SHOWN]),
            queued=AdmissionRequest.objects.filter(state=RequestState.QUEUED).count(),
            events=list(Event.objects.order_by("-id")[:SHOWN]),
        )


class Fleet(ConsolePage):
    """Every node as a strip of its slots, in its place, coloured by posture."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The grid, for one posture or all."""
        wanted = request.GET.get("posture", "")
        if wanted and wanted not in POSTURES:
            raise errors.InvalidRequest(
                f"There is no posture {wanted[:40]!r}.",
                errors=(errors.FieldError("/posture", "unknown", ", ".join(POSTURES)),),
            )
        rows = node_list().exclude(state=NodeState.RETIRED)
        strips = strips_of(rows.order_by("zone", "block", "rack", "name"))
        shown = [s for s in strips if not wanted or s.posture == wanted]
        zones: dict[str, dict[str, list[Strip]]] = {}
        for strip in shown:
            node = strip.node
            racks = zones.setdefault(node.zone or "no zone given", {})
            rack = " / ".join(part for part in (node.block, node.rack) if part)
            racks.setdefault(rack or "no rack given", []).append(strip)
        return self.page(
            "console/fleet.html",
            zones=zones,
            dense=len(shown) > ROOMY,
            counts=posture_counts(strips),
            posture=wanted,
            total=len(strips),
            shown=len(shown),
        )
