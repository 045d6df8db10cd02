"""How do the control plane's rows and the agent's wire types meet?

The only module of the control plane's core that knows the wire protocol; the API takes
what it needs of it from here.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from django.conf import settings

from nodeagent.protocol import (
    AGENT_VERSION,
    CLOCK_WINDOW_S,
    HOST_BRIDGE,
    MAX_BODY_BYTES,
    MOST_BURN_IN_S,
    NOT_APPLICABLE,
    PART_CLEANUP_STEPS,
    REQUIRED_CLEANUP_STEPS,
    STEPS_THAT_MAY_NOT_APPLY,
    BurnInResult,
    CandidateSlot,
    CompleteRequest,
    DeviceMode,
    FailRequest,
    FailureCode,
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaseAnswer,
    LeaseRequest,
    ObservedAnswer,
    ObservedReport,
    ProvisionResult,
    ReleaseResult,
    RenewAnswer,
    RenewRequest,
    SignedTask,
    SlotEvidence,
    TaskKind,
    TelemetryReport,
    TelemetryWindow,
    TopologyReport,
    Unwanted,
    WireError,
    cpu_list,
    cpu_numbers,
    evidence_signing_bytes,
    key_fingerprint,
    load_json,
    parse_params,
    parse_result,
    request_signing_bytes,
    signature_bytes,
    task_envelope,
    task_signing_bytes,
)
from placement.models import Node, NodeTask

__all__ = [
    "AGENT_VERSION",
    "CLOCK_WINDOW_S",
    "HOST_BRIDGE",
    "MAX_BODY_BYTES",
    "MOST_BURN_IN_S",
    "NOT_APPLICABLE",
    "PART_CLEANUP_STEPS",
    "REQUIRED_CLEANUP_STEPS",
    "STEPS_THAT_MAY_NOT_APPLY",
    "BurnInResult",
    "CandidateSlot",
    "CompleteRequest",
    "DeviceMode",
    "FailRequest",
    "FailureCode",
    "HeartbeatAnswer",
    "HeartbeatRequest",
    "JoinAnswer",
    "JoinRequest",
    "LeaseAnswer",
    "LeaseRequest",
    "ObservedAnswer",
    "ObservedReport",
    "ProvisionResult",
    "ReleaseResult",
    "RenewAnswer",
    "RenewRequest",
    "SlotEvidence",
    "TaskKind",
    "TelemetryReport",
    "TelemetryWindow",
    "TopologyReport",
    "Unwanted",
    "WireError",
    "control_public_key",
    "cpu_list",
    "cpu_numbers",
    "evidence_signer",
    "key_fingerprint",
    "load_json",
    "parse_result",
    "sealed",
    "signature_holds",
    "slot_bundle",
]


def _control_key() -> Ed25519PrivateKey:
    """The key that signs now: an operator may have switched to another a moment ago."""
    path: Path = settings.CONFIG.control_key_path
    found = path.stat()
    return _key_in(path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _key_in(path: Path, _file: int, _changed_ns: int) -> Ed25519PrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise TypeError("the control plane's signing key is not an Ed25519 key")
    return key


def control_public_key() -> str:
    """The key by which agents know that a task is ours, base64."""
    raw = _control_key().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def signature_holds(
    public_key: str,
    signature: str,
    *,
    method: str,
    path: str,
    sequence: int,
    timestamp: int,
    body: bytes,
    agent: str = "",
) -> bool:
    """Whether the request was signed by the holder of the key. ``agent``: what it has signed of
    its version."""
    signed = request_signing_bytes(method, path, sequence, timestamp, body, agent)
    return _holds(public_key, signature, signed)


def evidence_signer(
    task: NodeTask, message: CompleteRequest | FailRequest, public_keys: Iterable[str]
) -> str:
    """The node's key by which the evidence of a cleanup was signed; empty when by none of them."""
    if message.evidence_signature is None:
        return ""
    signed = evidence_signing_bytes(
        node_id=str(task.node_id),
        task_id=str(task.pk),
        lease_epoch=message.lease_epoch,
        boot_id=message.boot_id,
        evidence=message.evidence,
    )
    holds = (key for key in public_keys if _holds(key, message.evidence_signature, signed))
    return next(holds, "")


def _holds(public_key: str, signature: str, signed: bytes) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(signature_bytes(signature), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def sealed(task: NodeTask, node: Node, *, now: datetime, until: datetime) -> SignedTask:
    """The task as it goes to the node: typed, bound to node, boot and epoch, and signed."""
    kind = TaskKind(task.kind)
    params = parse_params(kind, task.params)
    envelope = task_envelope(
        task_id=str(task.pk),
        node_id=str(node.pk),
        kind=kind,
        attempt=task.attempt,
        lease_epoch=task.lease_epoch,
        boot_id=task.boot_id or None,
        not_before=int(now.timestamp()) - 1,
        expires_at=int(until.timestamp()) + 1,
        nonce=secrets.token_urlsafe(18),
        params=params,
    )
    signature = base64.b64encode(_control_key().sign(task_signing_bytes(envelope))).decode()
    return SignedTask(envelope=envelope.to_json(), params=params.to_json(), signature=signature)


def slot_bundle(slot: CandidateSlot, node_num: int) -> tuple[dict[str, Any], list[str]]:
    """What is handed over with a slot, and the identities that a claim holds alone.

    A shared NIC or NVMe is never handed over; PCI addresses are unique only on their node.
    """
    own_nic = slot.nic_mode is DeviceMode.EXCLUSIVE
    own_nvme = slot.nvme_mode is DeviceMode.EXCLUSIVE
    nics = [n for n in (slot.nic, *slot.extra_nics) if n is not None] if own_nic else []
    nvmes = [n for n in (slot.nvme, *slot.extra_nvmes) if n is not None] if own_nvme else []
    devices = {
        "slot_index": slot.index,
        "gpu_uuid": slot.gpu_uuid,
        "nic": nics[0] if nics else None,
        "nvme": nvmes[0] if nvmes else None,
        "numa": slot.numa,
        "cpuset": slot.cpuset,
        "memory_bytes": slot.memory_bytes,
        "nic_mode": slot.nic_mode.value,
        "nvme_mode": slot.nvme_mode.value,
        "extra_nics": nics[1:],
        "extra_nvmes": nvmes[1:],
    }
    uids = [
        f"gpu:{slot.gpu_uuid}",
        *(f"nic:{node_num}:{nic}" for nic in nics),
        *(f"nvme:{node_num}:{nvme}" for nvme in nvmes),
    ]
    return devices, uids
