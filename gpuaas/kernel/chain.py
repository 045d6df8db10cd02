"""What is a link of the event chain?  Canonical bytes, digests, and how they are read.

``digest = SHA-256(previous digest || canonical(event))``; before the first link of a chain
stand 32 zero bytes. ``canonical`` is the fields below, in that order, each as its length in
bytes, a colon and its UTF-8 text (``5:hello``), or ``-`` for null. Times are microseconds
since 1970; JSON is the text that PostgreSQL gives for jsonb. So a chain can be checked with
``psql`` and a few lines of any language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

FIELDS = (
    "e.id::text",
    "e.uid::text",
    "e.xid::text",
    "((extract(epoch from e.at) * 1000000)::bigint)::text",
    "e.tenant_id::text",
    "e.kind",
    "e.subject_kind",
    "e.subject_id::text",
    "e.actor::text",
    "e.before::text",
    "e.after::text",
    "e.reason",
    "e.facts::text",
    "e.correlation",
)
COLUMNS = ", ".join(FIELDS)
"""The select list whose row ``canonical`` takes, for ``kernel_event e``."""
PLATFORM = UUID(int=0)
"""The chain of events that belong to no tenant."""
GENESIS = bytes(32)


def canonical(fields: Sequence[str | None]) -> bytes:
    """The bytes that are hashed for one event, from the texts of ``FIELDS``."""
    parts = []
    for text in fields:
        if text is None:
            parts.append(b"-")
        else:
            raw = text.encode()
            parts.append(b"%d:%b" % (len(raw), raw))
    return b"".join(parts)


def link(previous: bytes, fields: Sequence[str | None]) -> bytes:
    """The digest of an event that follows ``previous``."""
    return hashlib.sha256(previous + canonical(fields)).digest()


def chain_of(tenant_id: UUID | None) -> UUID:
    """The chain that an event of this tenant belongs to."""
    return tenant_id or PLATFORM
