"""What does an operator see first: the fleet's postures, and the work that waits for a person?"""

from __future__ import annotations

from django.db.models import Sum
from django.http import HttpRequest, HttpResponse

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.console.fleet import posture_counts
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel.models import Event
from placement.models import Allocation, Node, Slot
from placement.selectors import postures_of
from placement.states import AllocationState, NodeState, SlotState
from tenants.selectors import tenant_list
from tenants.states import TenantState

SHOWN = 10


class Home(ConsolePage):
    """Postures, waiting work, the last events."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        standing = Node.objects.exclude(state=NodeState.RETIRED)
        postures = postures_of(standing.values_list("pk", flat=True))
        slots = Slot.objects.exclude(state=SlotState.RETIRED)
        blocked = Allocation.objects.filter(state=AllocationState.CLEANUP_BLOCKED)
        return self.page(
            "console/home.html",
            counts=posture_counts(postures.values()),
            total=len(postures),
            free=standing.filter(schedulable=True).aggregate(n=Sum("free_count"))["n"] or 0,
            slots=slots.exclude(node__state=NodeState.RETIRED).count(),
            pending=list(tenant_list().filter(state=TenantState.PENDING)[:SHOWN]),
            verifying=list(Node.objects.filter(state=NodeState.VERIFYING).order_by("name")[:SHOWN]),
            blocked=list(blocked.select_related("tenant", "node").order_by("state_since")[:SHOWN]),
            queued=AdmissionRequest.objects.filter(state=RequestState.QUEUED).count(),
            events=list(Event.objects.order_by("-id")[:SHOWN]),
        )
