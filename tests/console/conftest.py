"""Which fleet do the console's tests look at?"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpuaas.kernel.transitions import advance
from placement.models import Allocation, Node
from placement.services import nodes, slots
from placement.services.allocations import allocation_release
from tenants.models import User
from tests.builders import (
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_member,
    a_report,
    a_tenant,
)
from tests.portal.conftest import Browser


@dataclass
class Fleet:
    """One host in use, one to approve; a blocked cleanup; a tenant that waits."""

    acme: TenantWorld
    waiting: TenantWorld
    host: Host
    verifying: Node
    running: Allocation
    blocked: Allocation
    operator: User
    second: User
    viewer: User

    def browser(self) -> Browser:
        """The browser of an operator."""
        return Browser.of(self.operator)


@pytest.fixture
def fleet(db: None) -> Fleet:
    """The fleet."""
    a_catalogue()
    acme, waiting = a_tenant("acme"), a_tenant("initech", approve=False)
    host = a_host()
    running = acme.order(slots=2, name="train-1").allocation
    blocked = acme.order(slots=1, name="infer-1").allocation
    assert running is not None
    assert blocked is not None
    host.work()
    allocation_release(allocation_id=blocked.pk, reason="done", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    verifying = nodes.node_create(name="host-2", actor=OPERATOR, zone="eu-1", rack="r7")
    for edge in ("inspect", "verify"):
        verifying = advance(verifying, edge, actor=OPERATOR)
    report = a_report("host-2")
    slots.slots_take(verifying, report, actor=OPERATOR)
    Node.objects.filter(pk=verifying.pk).update(topology=report.to_json())

    def person(name: str) -> User:
        return User.objects.create_user(
            f"{name}@platform.test",
            "correct horse battery",
            is_staff=True,
            operator_role="administrator",
        )

    return Fleet(
        acme=acme,
        waiting=waiting,
        host=host,
        verifying=verifying,
        running=running,
        blocked=blocked,
        operator=person("op"),
        second=person("second"),
        viewer=a_member(acme, "viewer"),
    )
