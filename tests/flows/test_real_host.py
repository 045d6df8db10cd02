"""Does a real host's agent, with its helper and processes, go from join to proof over real HTTP?

Machines are stood in for by a small process here; with QEMU they are in tests/nodeagent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connections
from django.db.models.functions import Now
from pytest_django.live_server_helper import LiveServer

from gpuaas.kernel import audits
from nodeagent.signing import public_text
from placement.models import CleanupProof, Node, NodeCredential, NodeTask
from placement.node_tasks import control_public_key
from placement.selectors import posture_of
from placement.services import agents, approvals, nodes
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from placement.services.projections import projections_refresh
from placement.states import TaskState
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_tenant, drive_all
from tests.nodeagent.host_stage import HostStage, host_stage, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
IMAGES = ("ubuntu-24.04-cuda", "ubuntu-24.04-baremetal")
both_shapes = pytest.mark.parametrize("sku", ["h100.slice", "h100.node"])


@dataclass
class Play:
    """The control plane, the host's processes, and a tenant."""

    host: HostStage
    node: Node
    acme: TenantWorld

    def fresh(self) -> Node:
        """The node's row."""
        return Node.objects.get(pk=self.node.pk)

    def state(self) -> str:
        """Where acme's newest allocation stands."""
        return str(self.acme.tenant.allocations.latest("created_at").state)

    def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Let runs go on, and what is due be due at once, until something holds."""

        def looked() -> bool:
            drive_all()
            NodeTask.objects.filter(state=TaskState.PENDING).update(due_at=Now())
            return holds()

        assert until(looked, seconds), (self.state(), self.tail())

    def tail(self) -> str:
        """What the agent said last."""
        return (self.host.folder / "agent.log").read_text()[-1500:]

    def lease(self, sku: str) -> str:
        """Acme leases, and has it; gives the claim."""
        self.acme.order(sku, **({"slots": 2} if sku == "h100.slice" else {}))
        self.until(lambda: self.state() == "active")
        return str(self.acme.tenant.allocations.latest("created_at").pk)

    def release(self) -> None:
        """Acme gives it back."""
        row = self.acme.tenant.allocations.latest("created_at")
        allocation_release(allocation_id=row.pk, reason="", actor=self.acme.actor)


def _all_written() -> bool:
    """Whether no other connection is in the middle of something."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction'))"
        )
        return bool(cursor.fetchone()[0])


@pytest.fixture
def play(live_server: LiveServer) -> Iterator[Play]:
    """A host that joined by its own processes, was discovered and approved."""
    a_catalogue()
    acme = a_tenant("acme")
    node = nodes.node_create(name="host-1", actor=OPERATOR)
    _, token = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    with host_stage(
        server=live_server.url,
        token=token,
        images=IMAGES,
        node_id=str(node.pk),
        keys=(control_public_key(),),
    ) as host:
        host.start_helper()
        host.start_agent()
        made = Play(host, node, acme)
        assert until(lambda: made.fresh().state == "verifying", 60), made.tail()
        approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family="h100x8")
        assert until(lambda: made.fresh().schedulable, 60)
        yield made
        host.kill_agent()
    # What a killed agent asked for is still being written; tables are emptied once it is done.
    assert until(_all_written, 60)
    connections.close_all()


def conditions(play: Play) -> set[str]:
    """What the host says of itself."""
    return {str(one["code"]) for one in play.fresh().conditions}


@both_shapes
def test_a_real_host_goes_from_lease_to_release_with_a_proof_that_it_signed(
    play: Play, sku: str
) -> None:
    claim = play.lease(sku)
    assert (play.host.machine(claim) is not None) is (sku == "h100.slice")
    play.release()
    play.until(lambda: play.state() == "released")
    assert (play.host.machine(claim), play.host.records, play.host.traces()) == (None, [], [])
    proofs = list(CleanupProof.objects.all())
    assert all(proof.complete for proof in proofs)
    key = NodeCredential.objects.get(node=play.node).public_key
    assert {proof.signed_by for proof in proofs} == {key}
    play.until(lambda: posture_of(play.fresh()) == "fully_available")
    projections_refresh()
    assert [found for run in audits.registered().values() for found in run()] == []


def test_a_step_that_fails_blocks_by_its_name_until_a_repair(play: Play) -> None:
    claim = play.lease("h100.slice")
    slot = play.host.records[0].slots[0].slot_index
    held = (play.host.folder / "helper" / "stand-ins" / f"slot-{slot}.img").open("rb")
    with held:
        play.release()
        play.until(lambda: play.state() == "cleanup_blocked", 90)
    proof = CleanupProof.objects.filter(complete=False).earliest("created_at")
    assert proof.missing[0]["step"] == "devices_detached"
    assert proof.missing[0]["why"] == "failed"
    row = play.acme.tenant.allocations.get(pk=claim)
    cleanup_retry(allocation_id=row.pk, reason="the file was closed", actor=OPERATOR)
    play.until(lambda: play.state() == "released")
    assert (play.host.records, play.host.traces()) == ([], [])


def test_what_the_helper_refuses_reaches_the_operator_and_goes_on_once_repaired(play: Play) -> None:
    """Its keys are another control plane's: it takes nothing, and the host's machine stays."""
    claim = play.lease("h100.slice")
    play.host.trust(public_text(Ed25519PrivateKey.generate()), node_id=str(play.node.pk))
    play.release()
    play.until(lambda: play.state() == "cleanup_blocked", 90)
    task = NodeTask.objects.filter(kind="slice.vm_release").latest("id")
    assert task.error is not None
    assert (task.state, task.error["code"]) == ("failed", "signature_invalid")
    assert task.error["detail"].startswith("the host's helper: ")
    assert play.host.machine(claim) is not None
    play.host.control_keys.unlink()
    assert until(lambda: "prerequisite_missing" in conditions(play), 60)
    play.host.trust(control_public_key(), node_id=str(play.node.pk))
    row = play.acme.tenant.allocations.get(pk=claim)
    cleanup_retry(allocation_id=row.pk, reason="its keys are there again", actor=OPERATOR)
    play.until(lambda: play.state() == "released", 90)
    assert (play.host.machine(claim), play.host.records, play.host.traces()) == (None, [], [])


def test_a_kill_in_the_middle_ends_in_the_same_lease(play: Play) -> None:
    play.acme.order("h100.slice", slots=2)
    assert until(lambda: bool(play.host.records), 30)
    play.host.kill_agent()
    play.host.start_agent()
    play.until(lambda: play.state() == "active", 120)
    claim = str(play.acme.tenant.allocations.latest("created_at").pk)
    assert play.host.machine(claim) is not None
    play.release()
    play.until(lambda: play.state() == "released", 120)
    assert (play.host.records, play.host.traces()) == ([], [])
