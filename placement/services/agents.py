"""How does a host come to speak for itself?  It joins once, renews its credential, or loses it."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.versions import version_problem
from placement.errors import (
    AgentVersionRefused,
    CredentialInvalid,
    JoinTokenInvalid,
    NodeStateRefused,
)
from placement.models import JoinToken, Node, NodeCredential, NodeTask
from placement.node_tasks import (
    AGENT_VERSION,
    JoinAnswer,
    JoinRequest,
    RenewAnswer,
    RenewRequest,
    control_public_key,
)
from placement.services.nodes import discovery_order
from placement.states import NodeState, TaskState

CREDENTIAL_TTL = timedelta(hours=24)
JOIN_TTL_S = 900
MAX_JOIN_TTL_S = 3600
POLL_MS = 1000


def node_actor(node: Node) -> Actor:
    """The host as the one who acts."""
    return Actor(kind="node", id=str(node.pk), name=node.name)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


@transaction.atomic
def join_token_create(
    *, node_id: UUID, actor: Actor, ttl_s: int = JOIN_TTL_S
) -> tuple[JoinToken, str]:
    """A single-use invitation for one named node; its text is shown once.

    Older unused invitations of the node end with it.
    """
    if not 1 <= ttl_s <= MAX_JOIN_TTL_S:
        raise errors.InvalidRequest(
            f"An invitation lives 1 to {MAX_JOIN_TTL_S} seconds.",
            errors=(errors.FieldError("/ttl_s", "out_of_range", f"1 to {MAX_JOIN_TTL_S}"),),
        )
    node = _locked(node_id)
    if node.state == NodeState.RETIRED:
        raise NodeStateRefused(f"{node.name} is retired.", state=node.state)
    now = clock.db_now()
    JoinToken.objects.filter(node=node, used_at__isnull=True).update(expires_at=now)
    text = f"gpuaas_join_{secrets.token_urlsafe(32)}"
    token = JoinToken.objects.create(
        node=node,
        digest=_digest(text),
        expires_at=now + timedelta(seconds=ttl_s),
        created_by=actor.as_json(),
    )
    events.record(kind="placement.node.invite", subject=node, actor=actor, facts={"ttl_s": ttl_s})
    return token, text


_UNSIGNED = "from before signed proofs, so that each of its cleanups would stay blocked; upgrade it"


def version_check(version: str) -> None:
    """Refuse an agent that is too far from us. It may still report and hand in results."""
    problem = version_problem(version, AGENT_VERSION)
    if problem is not None:
        why = _UNSIGNED if problem == "unsigned" else problem.replace("_", " ")
        raise AgentVersionRefused(
            f"The agent's version is {why}: ours is {AGENT_VERSION}.",
            agent=version[:64],
            ours=AGENT_VERSION,
            problem=problem,
        )


def node_join(*, message: JoinRequest) -> JoinAnswer:
    """Exchange an invitation for a credential bound to the host's key.

    The same invitation with the same key gets the same answer, since the first may have
    been lost; with another key it is refused and recorded.
    """
    version_check(message.agent_version)
    answer = _join(message)
    if isinstance(answer, JoinTokenInvalid):
        raise answer
    return answer


@transaction.atomic
def _join(message: JoinRequest) -> JoinAnswer | JoinTokenInvalid:
    known_as = JoinToken.objects.filter(digest=_digest(message.token)).values_list("node_id")
    found = known_as.first()
    if found is None:
        raise JoinTokenInvalid
    # The node first, as whoever retires it or invites it anew does.
    node = Node.objects.select_for_update(no_key=True).get(pk=found[0])
    token = JoinToken.objects.select_for_update(no_key=True).get(digest=_digest(message.token))
    now = clock.db_now()
    if node.state == NodeState.RETIRED:
        raise JoinTokenInvalid("The node that this join token is for is retired.")
    if token.expires_at <= now and token.used_at is None:
        raise JoinTokenInvalid
    if token.used_at is not None:
        known = NodeCredential.objects.filter(
            node=node, public_key=message.public_key, revoked_at__isnull=True, expires_at__gt=now
        ).first()
        if token.used_key != message.public_key or known is None:
            events.record(
                kind="placement.node.join_refused",
                subject=node,
                actor=node_actor(node),
                reason="join_token_invalid",
                facts={"hostname": message.hostname},
            )
            return JoinTokenInvalid("This join token has been used.")
        return _join_answer(node, known)
    token.used_at, token.used_key = now, message.public_key
    token.save(update_fields=["used_at", "used_key"])
    NodeCredential.objects.filter(node=node, revoked_at__isnull=True).update(revoked_at=now)
    credential = NodeCredential.objects.create(
        node=node, public_key=message.public_key, expires_at=now + CREDENTIAL_TTL
    )
    node.boot_id, node.agent_version = message.boot_id, message.agent_version
    node.last_seen_at = now
    node.save(update_fields=["boot_id", "agent_version", "last_seen_at"])
    actor = node_actor(node)
    events.record(
        kind="placement.node.join",
        subject=node,
        actor=actor,
        facts={"hostname": message.hostname, "agent_version": message.agent_version},
    )
    if node.state == NodeState.ENROLLING:
        node = advance(node, "inspect", actor=actor, reason="joined")
        discovery_order(node)
    return _join_answer(node, credential)


def _join_answer(node: Node, credential: NodeCredential) -> JoinAnswer:
    return JoinAnswer(
        node_id=str(node.pk),
        node_name=node.name,
        credential_id=str(credential.pk),
        expires_at=int(credential.expires_at.timestamp()),
        control_public_key=control_public_key(),
        server_time=int(clock.db_now().timestamp()),
        poll_ms=POLL_MS,
    )


@transaction.atomic
def credential_renew(*, node: Node, by: UUID, message: RenewRequest) -> RenewAnswer:
    """A new credential for the same or a new key; the old one lives on for a few minutes.

    ``by``: the credential that asks. Raises CredentialInvalid where it has ended meanwhile.
    """
    now = clock.db_now()
    _locked(node.pk)
    if not NodeCredential.objects.filter(pk=by, node=node, revoked_at__isnull=True).exists():
        raise CredentialInvalid
    overlap = now + timedelta(minutes=5)
    NodeCredential.objects.filter(
        node=node, revoked_at__isnull=True, expires_at__gt=overlap
    ).update(expires_at=overlap)
    credential = NodeCredential.objects.create(
        node=node, public_key=message.public_key, expires_at=now + CREDENTIAL_TTL
    )
    events.record(kind="placement.node.renew", subject=node, actor=node_actor(node))
    return RenewAnswer(
        credential_id=str(credential.pk),
        expires_at=int(credential.expires_at.timestamp()),
        server_time=int(now.timestamp()),
        control_public_key=control_public_key(),
    )


@transaction.atomic
def credential_revoke(*, node_id: UUID, reason: str, actor: Actor) -> int:
    """End every credential of a node at once, and its invitations; its leased tasks go back.

    Gives how many credentials have ended.
    """
    node = _locked(node_id)
    now = clock.db_now()
    ended = NodeCredential.objects.filter(node=node, revoked_at__isnull=True).update(revoked_at=now)
    invited = JoinToken.objects.filter(node=node, used_at__isnull=True, expires_at__gt=now)
    invitations = invited.update(expires_at=now)
    for task in NodeTask.objects.filter(node=node, state=TaskState.LEASED):
        advance(task, "lose", actor=actor, reason="credential_revoked")
    events.record(
        kind="placement.node.revoke",
        subject=node,
        actor=actor,
        reason=reason,
        facts={"credentials": ended, "invitations": invitations},
    )
    return ended


def _locked(node_id: UUID) -> Node:
    """The node before anything of it, as everybody who gives or ends its credentials locks it.
    Raises NotFound."""
    node = Node.objects.select_for_update(no_key=True).filter(pk=node_id).first()
    if node is None:
        raise errors.NotFound
    return node
