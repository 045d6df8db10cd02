"""Which host is speaking, and may it?  Every message is signed, and each number is used once.

A large fleet asks and reports all the time. What is usual costs one statement: the public key of a
credential never changes and is kept in the process, and everything that can change is looked at by
the very statement that takes the number. That statement may as well answer the message
(placement.services.quiet, placement.services.asking). Only what it refuses is looked at again, to
say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

from django.db import connection
from psycopg.types.numeric import Int8

from gpuaas.kernel import clock, prepared
from placement.domain.versions import version_signed
from placement.errors import ClockSkew, CredentialInvalid, ReplayedMessage
from placement.models import Node, NodeCredential
from placement.node_tasks import CLOCK_WINDOW_S, signature_holds
from placement.states import NodeState

RENEWAL_GRACE: Final = timedelta(days=30)
"""How long after its end a credential may still be used for one thing: to be renewed."""
KEYS_KEPT: Final = 20_000

# Who may be heard. More columns of the node can follow.
KNOWN: Final = """
WITH here AS (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS at),
known AS (
    SELECT c.id AS credential, here.at, n.id, n.name, n.state, n.boot_id
      FROM here, placement_nodecredential c JOIN placement_node n ON n.id = c.node_id
     WHERE c.id = %(id)s AND n.state <> 'retired'
       AND c.revoked_at IS NULL AND c.expires_at + make_interval(secs => %(grace)s) > here.at
       AND abs(extract(epoch FROM here.at) - %(timestamp)s) <= %(window)s
       AND c.last_sequence < %(sequence)s),
"""
# The node's row before its credential's, as a join locks them, and before anything is done: of two
# messages that come together the one with the lower number, or the second of one number, finds it
# taken, and must have done nothing. A host reports and asks in one breath: the second need not
# write that it lives once more.
HAD: Final = """
had AS MATERIALIZED (
    SELECT n.id FROM known JOIN placement_node n ON n.id = known.id
     WHERE n.last_seen_at IS NULL OR n.last_seen_at < known.at - interval '1 second'
        OR n.last_seen_at > known.at
       FOR NO KEY UPDATE OF n),
"""
TAKEN: Final = """
taken AS (
    UPDATE placement_nodecredential c SET last_sequence = %(sequence)s, last_seen_at = known.at
      FROM known LEFT JOIN had ON had.id = known.id
     WHERE c.id = known.credential AND c.last_sequence < %(sequence)s AND c.revoked_at IS NULL
 RETURNING c.id)
"""
# What else a statement does, it does for what is ``taken`` only.
SEEN: Final = """
, seen AS (
    UPDATE placement_node n SET last_seen_at = known.at
      FROM known JOIN taken ON taken.id = known.credential JOIN had ON had.id = known.id
     WHERE n.id = known.id)
"""
_TAKE: Final = (
    KNOWN + HAD + TAKEN + SEEN + "SELECT known.id, known.name, known.state, known.boot_id"
    " FROM known JOIN taken ON taken.id = known.credential"
)
HOST: Final = ("id", "name", "state", "boot_id")
"""What is loaded of the node, and first in each answer: nothing that it ever reported."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A message as it came, with what stood beside it."""

    credential_id: str
    sequence: int
    timestamp: int
    signature: str
    method: str
    path: str
    body: bytes
    agent: str = ""
    """The version that the agent says it is of."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Whose key it is; neither ever changes."""

    public_key: str
    node_id: UUID


@lru_cache(maxsize=KEYS_KEPT)
def _bound(credential: UUID) -> Bound:
    """What a credential is bound to for ever. Raises CredentialInvalid."""
    found = NodeCredential.objects.filter(pk=credential).values_list("public_key", "node_id")
    row = found.first()
    if row is None:
        raise CredentialInvalid
    return Bound(*row)


_heard: Final[set[UUID]] = set()


def heard_before(credential_id: str) -> bool:
    """Whether a signature by this credential has ever held in this process. Asks nobody, and
    says nothing about the message at hand."""
    try:
        return UUID(credential_id) in _heard
    except ValueError:
        return False


def _remember(credential: UUID) -> None:
    if credential not in _heard:
        if len(_heard) >= KEYS_KEPT:
            _heard.pop()
        _heard.add(credential)


def signer_of(said: Signed) -> UUID:
    """The node whose key has signed the message, old or new. Raises CredentialInvalid.

    It is not heard by that: the number is not taken yet.
    """
    try:
        key = UUID(said.credential_id)
    except ValueError:
        raise CredentialInvalid from None
    bound = _bound(key)
    if not signature_holds(
        bound.public_key,
        said.signature,
        method=said.method,
        path=said.path,
        sequence=said.sequence,
        timestamp=said.timestamp,
        body=said.body,
        agent=version_signed(said.agent),
    ):
        raise CredentialInvalid
    _remember(key)
    return bound.node_id


def number_take(
    said: Signed,
    sql: LiteralString = _TAKE,
    more: Mapping[str, Any] | None = None,
    *,
    renewing: bool = False,
) -> prepared.Row:
    """The answer of a statement that takes the number of a message whose signature holds.

    ``sql`` begins with KNOWN and has TAKEN, and changes nothing where that takes nothing;
    ``more`` is what else it names. Each sequence is
    accepted once, rising. Raises CredentialInvalid, ClockSkew or ReplayedMessage.

    A host that was off for longer than its credential lives comes back by itself: ``renewing``
    accepts an ended, unrevoked credential within the grace.
    """
    key, grace = UUID(said.credential_id), RENEWAL_GRACE if renewing else timedelta()
    given = {
        "now": clock.stand_in(),
        "id": key,
        "grace": grace.total_seconds(),
        "timestamp": Int8(said.timestamp),
        "window": CLOCK_WINDOW_S,
        "sequence": Int8(said.sequence),
    }
    found = prepared.rows(sql, {**given, **(more or {})})
    if not found:
        raise _why(key, said.timestamp, grace)
    return found[0]


def host_of(row: prepared.Row) -> Node:
    """The node of an answer, which begins with HOST."""
    return Node.from_db(connection.alias, HOST, row[: len(HOST)])


def request_authenticate(said: Signed, *, renewing: bool = False) -> Node:
    """The node that signed the request; it was seen alive. Raises as number_take.

    The signature is checked before the time and the sequence are talked about, so that
    only the holder of the key learns them.
    """
    signer_of(said)
    return host_of(number_take(said, renewing=renewing))


def _why(
    key: UUID, timestamp: int, grace: timedelta
) -> CredentialInvalid | ClockSkew | ReplayedMessage:
    """What to tell the holder of the key whose message was not taken."""
    row = NodeCredential.objects.filter(pk=key).values_list(
        "revoked_at", "expires_at", "last_sequence", "node__state"
    )
    now = clock.db_now()
    revoked_at, expires_at, last, state = row.get()
    if revoked_at is not None or expires_at + grace <= now or state == NodeState.RETIRED:
        return CredentialInvalid()
    server_time = int(now.timestamp())
    if abs(now.timestamp() - timestamp) > CLOCK_WINDOW_S:
        return ClockSkew(server_time=server_time)
    return ReplayedMessage(last_sequence=last, server_time=server_time)
