"""Does a proof count only when its node signed exactly this evidence for exactly this task?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.protocol import AGENT_VERSION, CompleteRequest, EvidenceStep, SlotEvidence
from nodeagent.signing import public_text, sign
from placement.domain.versions import version_problem
from placement.errors import AgentVersionRefused
from placement.models import CleanupProof, NodeCredential, NodeTask
from placement.node_tasks import REQUIRED_CLEANUP_STEPS, TaskKind
from placement.services import tasks
from placement.services.agents import version_check
from placement.services.allocations import allocation_release
from tests.builders import HOST_KEY, Host, a_catalogue, a_host, a_tenant, drive_all, state_of

pytestmark = pytest.mark.django_db(transaction=True)

Change = Callable[[Host, NodeTask, CompleteRequest], CompleteRequest]


def _unsigned(host: Host, task: NodeTask, message: CompleteRequest) -> CompleteRequest:
    return replace(message, evidence_signature=None)


def _by_another_key(host: Host, task: NodeTask, message: CompleteRequest) -> CompleteRequest:
    assert message.evidence_signature is not None
    return replace(message, evidence_signature=sign(Ed25519PrivateKey.generate(), b"anything"))


def _changed_afterwards(host: Host, task: NodeTask, message: CompleteRequest) -> CompleteRequest:
    first, *others = message.evidence
    step, *steps = first.steps
    other = replace(first, steps=(replace(step, detail="done twice"), *steps))
    return replace(message, evidence=(other, *others))


def _of_another_task(host: Host, task: NodeTask, message: CompleteRequest) -> CompleteRequest:
    other = NodeTask.objects.exclude(pk=task.pk).filter(node=host.node).earliest("created_at")
    other.lease_epoch = task.lease_epoch
    return replace(message, evidence_signature=host.signature(other, message.evidence))


def _by_a_revoked_key(host: Host, task: NodeTask, message: CompleteRequest) -> CompleteRequest:
    NodeCredential.objects.filter(node=host.node).update(revoked_at=host.fresh().created_at)
    return message


def _released(change: Change | None) -> tuple[str, CleanupProof]:
    a_catalogue()
    acme, host = a_tenant("acme"), a_host()
    ticket = acme.order(slots=1)
    host.work()
    assert ticket.allocation is not None
    allocation_release(allocation_id=ticket.allocation.pk, reason="", actor=acme.actor)
    (task,) = host.lease()
    evidence = tuple(
        SlotEvidence(
            slot["slot_index"],
            tuple(
                EvidenceStep(step.value, True, "test", "", 0)
                for step in REQUIRED_CLEANUP_STEPS[TaskKind.VM_RELEASE]
            ),
        )
        for slot in task.params["slots"]
    )
    result = {
        "allocation_id": task.params["allocation_id"],
        "attempt": task.params["attempt"],
    }
    signature = host.signature(task, evidence)
    message = CompleteRequest(task.lease_epoch, host.boot, result, evidence, signature)
    if change is not None:
        message = change(host, task, message)
    tasks.task_complete(node=host.fresh(), task_id=task.pk, message=message)
    drive_all()
    return state_of(ticket.allocation.pk), CleanupProof.objects.get()


def test_a_signed_proof_releases_and_keeps_its_signature() -> None:
    state, proof = _released(None)
    assert (state, proof.complete) == ("released", True)
    assert proof.signed_by == public_text(HOST_KEY)
    assert len(proof.signature) == 88


@pytest.mark.parametrize(
    "change",
    [_unsigned, _by_another_key, _changed_afterwards, _of_another_task, _by_a_revoked_key],
)
def test_evidence_that_its_node_did_not_sign_blocks_and_names_the_signature(
    change: Change,
) -> None:
    state, proof = _released(change)
    assert (state, proof.complete) == ("cleanup_blocked", False)
    assert [one["step"] for one in proof.missing] == ["signature"]
    assert proof.signed_by == ""


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("1.4.0", None),
        ("1.3.9", None),
        ("1.5.0", None),
        ("1.4.0-rc1", None),
        ("1.2.9", "too_old"),
        ("0.9.0", "too_old"),
        ("1.6.0", "too_new"),
        ("2.0.0", "too_new"),
        ("", "unreadable"),
        ("latest", "unreadable"),
        ("1", "unreadable"),
        ("1.4.0\n", "unreadable"),
    ],
)
def test_an_agent_may_be_one_minor_version_away(agent: str, problem: str | None) -> None:
    assert version_problem(agent, "1.4.2") == problem


def test_an_agent_that_is_too_far_away_is_told_both_versions() -> None:
    with pytest.raises(AgentVersionRefused) as refused:
        version_check("99.0.0")
    assert refused.value.facts["agent"] == "99.0.0"
    assert refused.value.facts["problem"] == "too_new"


def test_an_agent_from_before_signed_proofs_is_told_at_once_and_not_at_its_first_cleanup() -> None:
    for version in ("0.1.0", "0.1.9", "0.0.1"):
        with pytest.raises(AgentVersionRefused, match="before signed proofs") as refused:
            version_check(version)
        assert refused.value.facts["problem"] == "unsigned"
    version_check(AGENT_VERSION)
