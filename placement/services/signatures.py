"""Which host is speaking, and may it?  Every message is signed, and each number is used once.

A large fleet asks and reports all the time. What is usual costs one statement: the public key of a
credential never changes and is kept in the process, and everything that can change is looked at by
the very statement that takes the number. Only what it refuses is looked at again, to say why.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.db import connection

from gpuaas.kernel import clock
from placement.errors import ClockSkew, CredentialInvalid, ReplayedMessage
from placement.models import Node, NodeCredential
from placement.node_tasks import CLOCK_WINDOW_S, signature_holds
from placement.states import NodeState

RENEWAL_GRACE: Final = timedelta(days=30)
"""How long after its end a credential may still be used for one thing: to be renewed."""
KEYS_KEPT: Final = 20_000

# The node before its credential, as a join locks them.
_TAKE: Final = """
WITH here AS (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
seen AS (
    UPDATE placement_node n SET last_seen_at = here.at
      FROM placement_nodecredential c, here
     WHERE c.id = %(id)s AND n.id = c.node_id AND n.state <> 'retired'
       AND c.revoked_at IS NULL AND c.expires_at + make_interval(secs => %(grace)s) > here.at
       AND abs(extract(epoch FROM here.at) - %(timestamp)s) <= %(window)s
       AND c.last_sequence < %(sequence)s
 RETURNING n.id, n.name, n.state, n.boot_id),
taken AS (
    UPDATE placement_nodecredential c SET last_sequence = %(sequence)s, last_seen_at = here.at
      FROM here, seen
     WHERE c.id = %(id)s AND c.last_sequence < %(sequence)s AND c.revoked_at IS NULL
 RETURNING c.node_id)
SELECT seen.id, seen.name, seen.state, seen.boot_id FROM seen JOIN taken ON taken.node_id = seen.id
"""


@lru_cache(maxsize=KEYS_KEPT)
def _public_key(credential: UUID) -> str:
    """The key that a credential is bound to for ever. Raises CredentialInvalid."""
    found = NodeCredential.objects.filter(pk=credential).values_list("public_key", flat=True)
    key = found.first()
    if key is None:
        raise CredentialInvalid
    return key


def request_authenticate(
    *,
    credential_id: str,
    sequence: int,
    timestamp: int,
    signature: str,
    method: str,
    path: str,
    body: bytes,
    renewing: bool = False,
) -> Node:
    """The node that signed the request; it was seen alive. Each sequence is accepted once, rising.

    Of the node its identity, state and boot are loaded, and nothing that it ever reported. A host
    that was off for longer than its credential lives comes back by itself: ``renewing`` accepts an
    ended, unrevoked credential within the grace.

    The signature is checked before the time and the sequence are talked about, so that
    only the holder of the key learns them.
    """
    try:
        key = UUID(credential_id)
    except ValueError:
        raise CredentialInvalid from None
    if not signature_holds(
        _public_key(key),
        signature,
        method=method,
        path=path,
        sequence=sequence,
        timestamp=timestamp,
        body=body,
    ):
        raise CredentialInvalid
    grace = RENEWAL_GRACE if renewing else timedelta()
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKE,
            {
                "now": clock.stand_in(),
                "id": key,
                "grace": grace.total_seconds(),
                "timestamp": timestamp,
                "window": CLOCK_WINDOW_S,
                "sequence": sequence,
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise _why(key, timestamp, grace)
    return Node.from_db(connection.alias, ("id", "name", "state", "boot_id"), row)


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
