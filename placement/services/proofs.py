"""What does a host's evidence of a cleanup prove, claim by claim?"""

from __future__ import annotations

from placement.domain.proof import SIGNATURE, missing_steps
from placement.models import Claim, CleanupProof, NodeCredential, NodeTask
from placement.node_tasks import (
    PART_CLEANUP_STEPS,
    REQUIRED_CLEANUP_STEPS,
    STEPS_THAT_MAY_NOT_APPLY,
    CompleteRequest,
    FailRequest,
    TaskKind,
    evidence_signer,
)
from placement.states import LIVE


def proofs_keep(task: NodeTask, message: CompleteRequest | FailRequest) -> None:
    """Judge the evidence for each claim, and keep it: complete or with what is missing.

    Bound to the claim, its slot, this attempt, and the boot the lease was given to; signed by
    the node, whose word it is.
    """
    by_slot = {entry.slot_index: entry for entry in message.evidence}
    keys = NodeCredential.objects.filter(node_id=task.node_id, revoked_at__isnull=True)
    signer = evidence_signer(task, message, set(keys.values_list("public_key", flat=True)))
    always = [step.value for step in REQUIRED_CLEANUP_STEPS[TaskKind(task.kind)]]
    given = {
        slot["slot_index"]: slot
        for slot in task.params.get("slots", task.params.get("devices", []))
    }
    claims = Claim.objects.filter(
        allocation__tasks=task, state__in=LIVE, attempt=task.claim_attempt
    )
    for claim in claims:
        indices = sorted(given) if claim.slot_index < 0 else [claim.slot_index]
        steps, missing = [], []
        required = always if claim.part is None else [*always, *map(str, PART_CLEANUP_STEPS)]
        if by_slot and not signer:
            detail = "the node did not sign this evidence"
            missing.append(
                {"slot_index": indices[0], "step": SIGNATURE, "why": "not_signed", "detail": detail}
            )
        for index in indices:
            entry = by_slot.get(index)
            found = [step.to_json() for step in entry.steps] if entry else []
            steps += [{"slot_index": index, **step} for step in found]
            slot = given.get(index, {})
            absent = {
                "nvme_sanitised": slot.get("nvme_mode") == "none",
                "nic_reset": slot.get("nic_mode") in ("none", "shared"),
            }
            missing += [
                {"slot_index": index, "step": m.step, "why": m.why, "detail": m.detail}
                for m in missing_steps(
                    found,
                    required=required,
                    optional_when_absent={
                        step.value: absent.get(step.value, False)
                        for step in STEPS_THAT_MAY_NOT_APPLY
                    },
                )
            ]
        CleanupProof.objects.create(
            claim=claim,
            slot_id=claim.slot_id,
            task=task,
            attempt=task.claim_attempt,
            boot_id=task.boot_id,
            steps=steps,
            complete=not missing,
            missing=missing,
            signature=message.evidence_signature or "",
            signed_by=signer,
        )
