"""Who may speak for a host, and until when?"""

from __future__ import annotations

import base64
from datetime import timedelta
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.kernel import clock
from gpuaas.kernel.models import Event
from nodeagent.protocol import (
    AGENT_VERSION,
    FailRequest,
    JoinAnswer,
    JoinRequest,
    RenewAnswer,
    RenewRequest,
    request_signing_bytes,
)
from placement.errors import ClockSkew, CredentialInvalid, JoinTokenInvalid, ReplayedMessage
from placement.models import JoinToken, Node, NodeCredential, NodeTask
from placement.services import agents, nodes, tasks
from placement.services.signatures import Signed, request_authenticate
from tests.builders import OPERATOR, a_catalogue

pytestmark = pytest.mark.django_db


class Speaker:
    """A host's key, and how it signs."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = base64.b64encode(raw).decode()
        self.credential = ""

    def join(self, token: str) -> JoinAnswer:
        answer = agents.node_join(
            message=JoinRequest(
                token=token,
                public_key=self.public,
                boot_id="boot-00000001",
                hostname="h1",
                agent_version=AGENT_VERSION,
                facts={},
            )
        )
        self.credential = answer.credential_id
        return answer

    def say(self, sequence: int, *, at: int | None = None, renewing: bool = False) -> Node:
        timestamp = int(clock.db_now().timestamp()) if at is None else at
        signed = request_signing_bytes("POST", "/x", sequence, timestamp, b"{}")
        said = Signed(
            credential_id=self.credential,
            sequence=sequence,
            timestamp=timestamp,
            signature=base64.b64encode(self.key.sign(signed)).decode(),
            method="POST",
            path="/x",
            body=b"{}",
        )
        return request_authenticate(said, renewing=renewing)

    def renewed(self, node: Node) -> RenewAnswer:
        return agents.credential_renew(
            node=Node.objects.get(pk=node.pk),
            by=UUID(self.credential),
            message=RenewRequest(public_key=self.public),
        )


def _invited(name: str = "h1") -> tuple[Node, str]:
    a_catalogue()
    node = nodes.node_create(name=name, actor=OPERATOR)
    _, text = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    return node, text


def test_an_invitation_works_once_and_again_only_for_the_same_key() -> None:
    node, text = _invited()
    first, thief = Speaker(), Speaker()
    answer = first.join(text)
    assert answer.node_name == node.name
    assert first.join(text).credential_id == answer.credential_id
    with pytest.raises(JoinTokenInvalid):
        thief.join(text)
    assert Node.objects.get(pk=node.pk).state == "inspecting"
    assert text not in str(JoinToken.objects.values_list("digest", flat=True))


def test_an_invitation_ends_after_its_minutes_and_when_a_newer_one_is_made() -> None:
    node, text = _invited()
    _, newer = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    with pytest.raises(JoinTokenInvalid):
        Speaker().join(text)
    JoinToken.objects.update(expires_at=clock.db_now() - timedelta(seconds=1))
    with pytest.raises(JoinTokenInvalid):
        Speaker().join(newer)


def test_a_message_is_accepted_once_and_an_older_one_never() -> None:
    _, text = _invited()
    host = Speaker()
    host.join(text)
    assert host.say(5).name == "h1"
    for sequence in (5, 4):
        with pytest.raises(ReplayedMessage) as refused:
            host.say(sequence)
        assert refused.value.facts["last_sequence"] == 5
    assert host.say(6).name == "h1"


def test_a_message_from_another_time_is_told_the_servers_clock() -> None:
    _, text = _invited()
    host = Speaker()
    host.join(text)
    with pytest.raises(ClockSkew) as refused:
        host.say(1, at=int(clock.db_now().timestamp()) - 86_400)
    assert abs(refused.value.facts["server_time"] - clock.db_now().timestamp()) < 5


def test_another_key_or_a_revoked_credential_is_refused_without_saying_which() -> None:
    node, text = _invited()
    host, thief = Speaker(), Speaker()
    host.join(text)
    thief.credential = host.credential
    with pytest.raises(CredentialInvalid) as wrong_key:
        thief.say(9)
    agents.credential_revoke(node_id=node.pk, reason="stolen", actor=OPERATOR)
    with pytest.raises(CredentialInvalid) as revoked:
        host.say(10)
    assert wrong_key.value.detail == revoked.value.detail


def test_a_revocation_ends_invitations_and_what_was_about_to_be_renewed() -> None:
    node, text = _invited()
    host = Speaker()
    host.join(text)
    _, another = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    assert host.say(1).pk == node.pk, "it was heard just before"
    agents.credential_revoke(node_id=node.pk, reason="stolen", actor=OPERATOR)
    with pytest.raises(CredentialInvalid):
        host.renewed(node)
    with pytest.raises(JoinTokenInvalid):
        Speaker().join(another)
    assert not NodeCredential.objects.filter(revoked_at__isnull=True).exists()
    told = Event.objects.get(kind="placement.node.revoke").facts
    assert told == {"credentials": 1, "invitations": 1}


def test_a_host_that_was_off_for_long_may_only_renew() -> None:
    node, text = _invited()
    host = Speaker()
    host.join(text)
    NodeCredential.objects.update(expires_at=clock.db_now() - timedelta(days=3))
    with pytest.raises(CredentialInvalid):
        host.say(1)
    assert host.say(2, renewing=True).pk == node.pk
    host.credential = host.renewed(node).credential_id
    assert host.say(3).pk == node.pk
    NodeCredential.objects.update(expires_at=clock.db_now() - timedelta(days=31))
    with pytest.raises(CredentialInvalid):
        host.say(4, renewing=True)


def test_what_a_host_hands_in_while_it_is_retired_is_not_taken() -> None:
    node, text = _invited()
    Speaker().join(text)
    task = NodeTask.objects.get(node=node)
    nodes.node_retire(node_id=node.pk, reason="sold", actor=OPERATOR)
    failed = FailRequest(
        lease_epoch=task.lease_epoch, boot_id="boot-00000001", code="x", detail="", retryable=False
    )
    with pytest.raises(CredentialInvalid):
        tasks.task_fail(node=node, task_id=task.pk, message=failed)


def test_nobody_speaks_for_a_host_that_is_retired_nor_begins_to() -> None:
    node, first = _invited()
    host = Speaker()
    host.join(first)
    _, unused = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    nodes.node_retire(node_id=node.pk, reason="sold", actor=OPERATOR)
    told = Event.objects.get(kind="placement.node.retire")
    assert told.facts == {"credentials": 1, "invitations": 1}
    assert not NodeCredential.objects.filter(revoked_at__isnull=True).exists()
    with pytest.raises(CredentialInvalid):
        host.say(1)
    # One that an earlier control plane has left open is of no more use than one that is repeated.
    JoinToken.objects.filter(used_at__isnull=True).update(
        expires_at=clock.db_now() + timedelta(minutes=9)
    )
    for speaker, token in ((Speaker(), unused), (host, first)):
        with pytest.raises(JoinTokenInvalid) as refused:
            speaker.join(token)
        assert refused.value.detail == "The node that this join token is for is retired."
    assert NodeCredential.objects.count() == 1


def test_a_larger_fleet_is_asked_to_poll_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for fleet, least, most in ((3, 1000, 1400), (1000, 15_000, 21_000), (50_000, 15_000, 21_000)):
        monkeypatch.setattr(tasks, "_fleet", (clock.monotonic(), fleet))
        assert least <= tasks.poll_ms() <= most
