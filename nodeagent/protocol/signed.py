"""Which bytes are signed? Signing itself is done elsewhere: this stays standard library only."""

from __future__ import annotations

import base64
from typing import Any

from nodeagent.protocol.kinds import SCHEMA_VERSION, TaskKind
from nodeagent.protocol.messages import SlotEvidence, TaskEnvelope
from nodeagent.protocol.params import TaskParams
from nodeagent.protocol.text import canonical_json, sha256_hex


def key_fingerprint(public_key: str) -> str:
    """A public key's short name, which people compare on both sides: 16 hex digits of its
    SHA-256. ``public_key``: base64."""
    return sha256_hex(public_key.encode("ascii", "replace"))[:16]


def signature_bytes(signature: str) -> bytes:
    """The signature that is meant by this text. Raises ValueError for a text that is not exactly
    how its bytes are written: the last character of base64 has bits that no decoder looks at, and a
    signed message has one form only."""
    raw = base64.b64decode(signature, validate=True)
    if base64.b64encode(raw).decode("ascii") != signature:
        raise ValueError("the signature is not written as base64 writes it")
    return raw


def request_signing_bytes(
    method: str, path: str, sequence: int, timestamp: int, body: bytes, agent: str = ""
) -> bytes:
    """What an agent signs of a request: method, path (with its query, as sent), sequence,
    timestamp (unix seconds on the server's clock), the body's SHA-256 and, from version 0.3 on, the
    agent's version as it is sent; one per line."""
    signed = f"{method.upper()}\n{path}\n{sequence}\n{timestamp}\n{sha256_hex(body)}"
    return f"{signed}\n{agent}".encode() if agent else signed.encode()


def task_signing_bytes(envelope: TaskEnvelope | dict[str, Any]) -> bytes:
    """What the control plane signs of a task: the canonical JSON of its envelope."""
    return canonical_json(envelope.to_json() if isinstance(envelope, TaskEnvelope) else envelope)


def evidence_signing_bytes(
    *,
    node_id: str,
    task_id: str,
    lease_epoch: int,
    boot_id: str,
    evidence: tuple[SlotEvidence, ...],
) -> bytes:
    """What a node signs of a cleanup's evidence, so that it proves by itself, also years later,
    which node said it of which task, lease and boot."""
    return canonical_json(
        {
            "node_id": node_id,
            "task_id": task_id,
            "lease_epoch": lease_epoch,
            "boot_id": boot_id,
            "evidence": [slot.to_json() for slot in evidence],
        }
    )


def params_sha256(params: TaskParams | dict[str, Any]) -> str:
    """Hash that binds parameters to an envelope, over the object exactly as it is sent."""
    return sha256_hex(canonical_json(params if isinstance(params, dict) else params.to_json()))


def task_envelope(
    *,
    task_id: str,
    node_id: str,
    kind: TaskKind,
    attempt: int,
    lease_epoch: int,
    boot_id: str | None,
    not_before: int,
    expires_at: int,
    nonce: str,
    params: TaskParams,
) -> TaskEnvelope:
    """The envelope of a task, with its parameters' hash and the schema version filled in."""
    return TaskEnvelope(
        task_id=task_id,
        node_id=node_id,
        kind=kind,
        attempt=attempt,
        lease_epoch=lease_epoch,
        boot_id=boot_id,
        not_before=not_before,
        expires_at=expires_at,
        nonce=nonce,
        params_sha256=params_sha256(params),
        schema=SCHEMA_VERSION,
    )
