"""How do hosts join, get work, report and hand in results?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from gpuaas.api import limits
from gpuaas.api.agent.base import AgentView, answered, message_of, raw_body
from gpuaas.api.base import OpenView
from placement.errors import WireRefused
from placement.node_tasks import (
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaseRequest,
    ObservedAnswer,
    ObservedReport,
    RenewRequest,
    TelemetryReport,
)
from placement.services import agents, observed, tasks, telemetry
from placement.services.asking import Asked, node_asks
from placement.services.quiet import Said, said_in
from placement.services.signatures import Signed


class Join(OpenView):
    """A host's first word: the one message without a signature."""

    schema = None
    policy = limits.JOIN
    remembers = False

    def post(self, request: Request) -> HttpResponse:
        """Exchange a one-time token for a credential bound to the host's key."""
        message = message_of(raw_body(request._request), JoinRequest)
        return answered(agents.node_join(message=message))


class CredentialRenew(AgentView):
    """A new credential before the old one ends, or for a host that was off for a while."""

    schema = None
    renews = True

    def post(self, request: HttpRequest) -> HttpResponse:
        """Renew, with the same key or a new one."""
        message = message_of(self.said.body, RenewRequest)
        by = UUID(self.said.credential_id)
        return answered(agents.credential_renew(node=self.node, by=by, message=message))


class TaskLease(AgentView):
    """Work for the host."""

    schema = None
    asked: Asked

    def heard(self, said: Signed) -> None:
        """Found out with the same statement: whether anything waits."""
        self.node, self.asked = node_asks(said)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Lease what is due, to an agent of a version near ours."""
        version = self.said.agent
        agents.version_check(version)
        message = message_of(self.said.body, LeaseRequest)
        answer = tasks.tasks_lease(node=self.node, message=message, asked=self.asked, agent=version)
        return answered(answer)


class TaskHeartbeat(AgentView):
    """Still at it."""

    schema = None

    def post(self, request: HttpRequest, task_id: UUID) -> HttpResponse:
        """Extend the lease, and say how far it is."""
        message = message_of(self.said.body, HeartbeatRequest)
        return answered(tasks.task_heartbeat(node=self.node, task_id=task_id, message=message))


class TaskComplete(AgentView):
    """Done, with evidence."""

    schema = None

    def post(self, request: HttpRequest, task_id: UUID) -> HttpResponse:
        """Hand in the result. A result of a lost lease is kept and refused."""
        message = message_of(self.said.body, CompleteRequest)
        tasks.task_complete(node=self.node, task_id=task_id, message=message)
        return answered(None)


class TaskFail(AgentView):
    """Not done."""

    schema = None

    def post(self, request: HttpRequest, task_id: UUID) -> HttpResponse:
        """Say why a task was not done."""
        message = message_of(self.said.body, FailRequest)
        tasks.task_fail(node=self.node, task_id=task_id, message=message)
        return answered(None)


class Observed(AgentView):
    """What the host sees of itself."""

    schema = None
    known: Said | None
    taken: ObservedAnswer | None

    def heard(self, said: Signed) -> None:
        """Taken with the same statement, where it says nothing new."""
        self.known = said_in(said.body)
        self.node, self.taken = observed.node_reports(said, self.known)

    def put(self, request: HttpRequest) -> HttpResponse:
        """A full report of VMs, devices and conditions."""
        if self.taken is not None:
            return answered(self.taken)
        message = message_of(self.said.body, ObservedReport)
        digest = self.known.digest if self.known else ""
        return answered(observed.node_observed(node=self.node, message=message, digest=digest))


class Telemetry(AgentView):
    """What the host measured of itself."""

    schema = None
    message: TelemetryReport | WireRefused
    kept: ObservedAnswer | None = None

    def heard(self, said: Signed) -> None:
        """Kept with the same statement, where there is nothing to act upon."""
        try:
            self.message = message_of(said.body, TelemetryReport)
        except WireRefused as refusal:
            # Told once the message has been heard.
            self.message = refusal
            super().heard(said)
            return
        self.node, self.kept = telemetry.telemetry_hear(said, self.message)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Windows that are finished; one that is known already changes nothing."""
        if isinstance(self.message, WireRefused):
            raise self.message
        if self.kept is not None:
            return answered(self.kept)
        return answered(telemetry.telemetry_take(node=self.node, message=self.message))
