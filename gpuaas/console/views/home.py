"""What does an operator see first: the fleet's postures, and the work that waits for a person?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.console.fleet import posture_counts, strips_of
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel.models import Event
from placement.models import Allocation, Node
from placement.selectors import node_list
from placement.states import AllocationState, NodeState
from tenants.selectors import tenant_list
from tenants.states import TenantState

SHOWN = 10


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
