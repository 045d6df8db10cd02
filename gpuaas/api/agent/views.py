"""How do hosts join, get work, report and hand in results?"""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import limits
from gpuaas.api.agent.base import AgentView, answered, message_of
from gpuaas.api.base import OpenView
from placement.node_tasks import (
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaseRequest,
    ObservedReport,
    RenewRequest,
    TelemetryReport,
)
from placement.services import agents, observed, tasks, telemetry


class Join(OpenView):
    """A host's first word: the one message without a signature."""

    schema = None
    policy = limits.AGENT
    remembers = False

    def post(self, request: Request) -> Response:
        """Exchange a one-time token for a credential bound to the host's key."""
        message = message_of(request, JoinRequest)
        return answered(agents.node_join(message=message))


class CredentialRenew(AgentView):
    """A new credential before the old one ends, or for a host that was off for a while."""

    schema = None
    renews = True

    def post(self, request: Request) -> Response:
        """Renew, with the same key or a new one."""
        message = message_of(request, RenewRequest)
        return answered(agents.credential_renew(node=self.node, message=message))


class TaskLease(AgentView):
    """Work for the host."""

    schema = None

    def post(self, request: Request) -> Response:
        """Lease what is due, to an agent of a version near ours."""
        agents.version_check(request.headers.get("Agent-Version", ""))
        message = message_of(request, LeaseRequest)
        return answered(tasks.tasks_lease(node=self.node, message=message))


class TaskHeartbeat(AgentView):
    """Still at it."""

    schema = None

    def post(self, request: Request, task_id: UUID) -> Response:
        """Extend the lease, and say how far it is."""
        message = message_of(request, HeartbeatRequest)
        return answered(tasks.task_heartbeat(node=self.node, task_id=task_id, message=message))


class TaskComplete(AgentView):
    """Done, with evidence."""

    schema = None

    def post(self, request: Request, task_id: UUID) -> Response:
        """Hand in the result. A result of a lost lease is kept and refused."""
        message = message_of(request, CompleteRequest)
        tasks.task_complete(node=self.node, task_id=task_id, message=message)
        return answered(None)


class TaskFail(AgentView):
    """Not done."""

    schema = None

    def post(self, request: Request, task_id: UUID) -> Response:
        """Say why a task was not done."""
        message = message_of(request, FailRequest)
        tasks.task_fail(node=self.node, task_id=task_id, message=message)
        return answered(None)


class Observed(AgentView):
    """What the host sees of itself."""

    schema = None

    def put(self, request: Request) -> Response:
        """A full report of VMs, devices and conditions."""
        message = message_of(request, ObservedReport)
        return answered(observed.node_observed(node=self.node, message=message))


class Telemetry(AgentView):
    """What the host measured of itself."""

    schema = None

    def post(self, request: Request) -> Response:
        """Windows that are finished; one that is known already changes nothing."""
        message = message_of(request, TelemetryReport)
        return answered(telemetry.telemetry_take(node=self.node, message=message))
