"""Is an agent never sent a MIG profile that its version cannot read?"""

from __future__ import annotations

import pytest

from gpuaas.kernel import clock
from nodeagent.protocol import AGENT_VERSION, SignedTask
from placement.domain.versions import profile_unknown
from placement.models import GpuDevice, NodeTask
from placement.node_tasks import LeaseRequest
from placement.services import tasks
from placement.services.asking import Asked
from placement.services.cleanup import cleanup_retry
from tenants.services import catalogue
from tests.builders import (
    BOTH_KINDS,
    CLASS,
    OPERATOR,
    Host,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    drive_all,
    state_of,
)

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = "0.2.0"
RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


@pytest.mark.parametrize("name", ["1g.24gb+gfx", "1g.24gb-me", "1g.24gb+me.all"])
def test_an_agent_from_before_the_newer_profiles_is_known_by_its_version(name: str) -> None:
    old = ["1g.10gb", "1g.10gb+me"]
    for agent in (BEFORE, "0.2.9", "?", ""):
        assert profile_unknown(agent, [*old, name]) == name
        assert profile_unknown(agent, old) is None
    for agent in ("0.3.0", "0.3", "1.0.0", AGENT_VERSION):
        assert profile_unknown(agent, [*old, name]) is None


@pytest.fixture
def host() -> Host:
    """A host of GPUs that have profiles which draw, one of them cut."""
    a_catalogue()
    a_parts_catalogue()
    made = a_host(parts=BOTH_KINDS)
    GpuDevice.objects.update(model=RTX, memory_bytes=96 * 2**30)
    catalogue.sku_create(
        name="rtx.draws",
        title="rtx.draws",
        family="h100x8",
        resource_class=CLASS,
        hour_micro=300_000,
        actor=OPERATOR,
        units_milli=250,
        shape="mig",
        part_profile="1g.24gb+gfx",
    )
    catalogue.sku_publish(sku="rtx.draws", actor=OPERATOR)
    cut_slots(made, "mig", 0)
    return made


def polled(host: Host, version: str) -> tuple[SignedTask, ...]:
    """What an agent of this version is given."""
    message = LeaseRequest(boot_id=host.boot, max=8, capabilities=())
    asked = Asked(clock.db_now(), True)
    return tasks.tasks_lease(node=host.fresh(), message=message, asked=asked, agent=version).tasks


def test_a_profile_that_an_agent_cannot_read_is_not_sent_and_ends_by_name(host: Host) -> None:
    ticket = a_tenant().order("rtx.draws")
    drive_all()
    assert ticket.allocation_id is not None
    assert polled(host, BEFORE) == ()
    task = NodeTask.objects.get(kind="slice.vm_provision")
    error = task.error or {}
    assert (task.state, task.attempt, error["code"]) == ("failed", 0, "part_unsupported")
    assert "agent is 0.2.0, and knows the profile 1g.24gb+gfx from 0.3 on" in error["detail"]
    # Nothing was made, and of what may be there nobody knows: its cleanup is not sent either.
    drive_all()
    assert polled(host, BEFORE) == ()
    drive_all()
    assert state_of(ticket.allocation_id) == "cleanup_blocked"
    cleanup_retry(allocation_id=ticket.allocation_id, reason="upgraded", actor=OPERATOR)
    drive_all()
    host.work()
    assert state_of(ticket.allocation_id) == "released"


def test_an_upgraded_agent_and_what_an_older_one_can_read_are_sent(host: Host) -> None:
    acme = a_tenant()
    acme.order("rtx.draws")
    drive_all()
    (sent,) = polled(host, AGENT_VERSION)
    assert sent.params["slots"][0]["part"]["profile"] == "1g.24gb+gfx"
