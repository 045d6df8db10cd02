"""Do hosts join, get work and report over the wire, and is every forged message refused?"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.api import limits, share
from gpuaas.api.agent.base import AgentView
from gpuaas.kernel import clock, ids
from nodeagent.answers import Answer, is_taken, refusal_in
from nodeagent.protocol import AGENT_VERSION, LeaseAnswer, request_signing_bytes
from placement.domain.versions import version_signed
from placement.models import Node, NodeCredential, NodeTask, TaskObservation
from placement.services import agents, nodes, tasks
from tests.api.client import Caller
from tests.builders import OPERATOR, a_catalogue

pytestmark = pytest.mark.django_db

BOOT = "boot-0000-0001"


class Agent:
    """A host's side of the protocol, as small as a test needs it."""

    def __init__(self, name: str = "gpu-01") -> None:
        self.node = nodes.node_create(name=name, actor=OPERATOR)
        self.token = agents.join_token_create(node_id=self.node.pk, actor=OPERATOR)[1]
        self.key = Ed25519PrivateKey.generate()
        self.http = Caller()
        self.credential = ""
        self.sequence = 0

    @property
    def public_key(self) -> str:
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return base64.b64encode(raw).decode()

    def join(self, **change: Any) -> Any:
        body = {
            "token": self.token,
            "public_key": self.public_key,
            "boot_id": BOOT,
            "hostname": "gpu-01",
            "agent_version": AGENT_VERSION,
            "facts": {},
            **change,
        }
        answer = self.http.call("POST", "/agent/v1/join", body)
        if answer.status_code == 200:
            self.credential = answer.json()["credential_id"]
        return answer

    def headers(self, method: str, path: str, body: bytes, **change: Any) -> dict[str, str]:
        self.sequence += 1
        sequence = change.get("sequence", self.sequence)
        timestamp = change.get("timestamp", int(clock.now().timestamp()))
        version = change.get("version", AGENT_VERSION)
        signs = change.get("signs", version_signed(version))
        signed = request_signing_bytes(method, path, sequence, timestamp, body, signs)
        signature = base64.b64encode(self.key.sign(signed)).decode()
        return {
            "HTTP_GPUAAS_CREDENTIAL": change.get("credential", self.credential),
            "HTTP_GPUAAS_SEQUENCE": str(sequence),
            "HTTP_GPUAAS_TIMESTAMP": str(timestamp),
            "HTTP_GPUAAS_SIGNATURE": change.get("signature", signature),
            "HTTP_AGENT_VERSION": version,
        }

    def say(self, method: str, path: str, message: Any, **change: Any) -> Any:
        path = f"/agent/v1{path}"
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.http.call(method, path, body, **self.headers(method, path, body, **change))

    def lease(self, **change: Any) -> Any:
        message = {"boot_id": BOOT, "max": 4, "capabilities": [], "running": []}
        return self.say("POST", "/tasks:lease", message, **change)


@pytest.fixture
def agent() -> Agent:
    a_catalogue()
    return Agent()


@pytest.fixture
def joined(agent: Agent) -> Agent:
    assert agent.join().status_code == 200
    return agent


def test_a_host_joins_and_a_lost_reply_is_given_again(agent: Agent) -> None:
    first, again = agent.join(), agent.join()
    assert first.status_code == again.status_code == 200
    same = ("node_id", "node_name", "credential_id", "control_public_key", "expires_at")
    assert {k: first.json()[k] for k in same} == {k: again.json()[k] for k in same}


def test_a_used_token_is_refused_to_another_key(joined: Agent) -> None:
    other = Agent("gpu-02")
    answer = other.join(token=joined.token)
    assert (answer.status_code, answer.json()["code"]) == (403, "join_token_invalid")
    assert NodeCredential.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"public_key": "short"}, "/public_key"),
        ({"facts": []}, "/facts"),
        ({"hostname": "a b"}, "/hostname"),
        ({"operator": True}, "/operator"),
        ({"boot_id": 7}, "/boot_id"),
    ],
)
def test_a_malformed_join_is_refused_by_name(
    agent: Agent, change: dict[str, Any], pointer: str
) -> None:
    answer = agent.join(**change)
    assert (answer.status_code, answer.json()["code"]) == (400, "message_invalid")
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not NodeCredential.objects.exists()


def test_what_a_host_is_given_is_decided_by_the_version_that_it_asks_with(
    joined: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    lease = tasks.tasks_lease

    def watched(*, agent: str, **given: Any) -> LeaseAnswer:
        asked.append(agent)
        return lease(agent=agent, **given)

    monkeypatch.setattr(tasks, "tasks_lease", watched)
    assert joined.lease(version="0.2.7").status_code == 200
    refused = joined.lease(version="0.1.0")
    assert (refused.status_code, refused.json()["code"]) == (426, "agent_version_refused")
    assert asked == ["0.2.7"]


def test_a_joined_host_leases_its_discovery(joined: Agent) -> None:
    answer = joined.lease()
    assert answer.status_code == 200
    (task,) = answer.json()["tasks"]
    assert task["envelope"]["kind"] == "slice.topology_discover"
    assert task["envelope"]["node_id"] == str(joined.node.pk)


def test_a_host_reports_how_far_it_is_and_fails_with_a_reason(joined: Agent) -> None:
    task = joined.lease().json()["tasks"][0]["envelope"]
    path = f"/tasks/{task['task_id']}"
    beat = {"lease_epoch": task["lease_epoch"], "step": "reading", "percent": 10}
    assert joined.say("POST", f"{path}/heartbeat", beat).json()["cancel"] is False
    fail = {
        "lease_epoch": task["lease_epoch"],
        "boot_id": BOOT,
        "code": "backend_error",
        "detail": "no driver",
        "retryable": False,
    }
    assert joined.say("POST", f"{path}/fail", fail).status_code == 200
    assert NodeTask.objects.get(pk=task["task_id"]).state == "failed"
    assert joined.say("POST", f"{path}/fail", fail).status_code == 200


def test_a_late_result_is_refused_and_kept(joined: Agent) -> None:
    task = joined.lease().json()["tasks"][0]["envelope"]
    late = {
        "lease_epoch": task["lease_epoch"] - 1,
        "boot_id": BOOT,
        "code": "backend_error",
        "detail": "",
        "retryable": False,
    }
    answer = joined.say("POST", f"/tasks/{task['task_id']}/fail", late)
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost")
    assert TaskObservation.objects.count() == 1
    assert NodeTask.objects.get(pk=task["task_id"]).state == "leased"


def test_a_replayed_message_changes_nothing_and_tells_the_last_sequence(joined: Agent) -> None:
    joined.lease(sequence=7)
    answer = joined.lease(sequence=7)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "replayed_message")
    assert body["last_sequence"] == 7


def test_a_message_out_of_its_time_is_told_the_servers(joined: Agent) -> None:
    answer = joined.lease(timestamp=1)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (401, "clock_skew")
    assert abs(body["server_time"] - clock.now().timestamp()) < 60


@pytest.mark.parametrize(
    "change",
    [
        {"signature": base64.b64encode(bytes(64)).decode()},
        {"signature": "not base64"},
        {"signature": ""},
        {"credential": "nobody"},
        {"credential": ""},
        {"sequence": -1},
        {"version": "0.2.9", "signs": "0.3.0"},
        {"version": "0.4.0", "signs": "0.3.0"},
        {"version": "", "signs": "0.3.0"},
        {"version": "0.3.0", "signs": ""},
    ],
)
def test_a_forged_message_is_refused(joined: Agent, change: dict[str, Any]) -> None:
    answer = joined.lease(**change)
    assert (answer.status_code, answer.json()["code"]) == (401, "credential_invalid")
    assert NodeCredential.objects.get().last_sequence == 0


def test_a_signature_holds_for_one_body_and_one_path_only(joined: Agent) -> None:
    body = b'{"boot_id": "boot-0000-0001", "max": 4, "capabilities": []}'
    headers = joined.headers("POST", "/agent/v1/tasks:lease", body)
    other = joined.http.call("POST", "/agent/v1/tasks:lease", body + b" ", **headers)
    assert other.status_code == 401
    moved = joined.http.call("POST", "/agent/v1/credential:renew", body, **headers)
    assert moved.status_code == 401
    assert joined.http.call("POST", "/agent/v1/tasks:lease", body, **headers).status_code == 200


def test_another_hosts_task_is_as_good_as_missing(joined: Agent) -> None:
    task = joined.lease().json()["tasks"][0]["envelope"]
    other = Agent("gpu-02")
    other.join()
    beat = {"lease_epoch": task["lease_epoch"], "step": "reading", "percent": 10}
    theirs = other.say("POST", f"/tasks/{task['task_id']}/heartbeat", beat)
    missing = other.say("POST", f"/tasks/{ids.new_id()}/heartbeat", beat)
    assert theirs.status_code == missing.status_code == 404
    assert theirs.json()["detail"] == missing.json()["detail"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[" * 50_000, "too_deep"),
        (b'{"boot_id": NaN}', "out_of_range"),
        (b'{"boot_id": "a\\u0000"}', "bad_characters"),
        (b'{"max": 1, "max": 2}', "duplicate_key"),
        (b"\xff", "not_json"),
        (b"[]", "wrong_type"),
    ],
)
def test_a_signed_body_is_read_as_strictly_as_any(joined: Agent, body: bytes, code: str) -> None:
    answer = joined.say("POST", "/tasks:lease", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "message_invalid")
    assert answer.json()["errors"][0]["code"] == code


def test_a_huge_body_is_refused(joined: Agent) -> None:
    answer = joined.say("POST", "/tasks:lease", b" " * 1_100_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def _full(agent: Agent, patch: pytest.MonkeyPatch) -> Any:
    full = share.Share(at_once=1, in_line=0)
    patch.setattr(share, "hosts", full)
    with full.turn():
        return agent.lease()


def _broken(agent: Agent, patch: pytest.MonkeyPatch) -> Any:
    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("no reason")

    patch.setattr(AgentView, "check_permissions", breaks)
    return agent.lease()


def _limited(agent: Agent, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(AgentView, "policy", limits.Policy("none", 1, 6000, shared=False))
    agent.lease()
    return agent.lease()


@pytest.mark.parametrize(
    ("status", "ask"),
    [
        (400, lambda agent, _: agent.join(hostname="a b")),
        (400, lambda agent, _: agent.http.http.post("/agent/v1/join", HTTP_HOST="else.example")),
        (401, lambda agent, _: agent.lease(signature="A" * 86 + "==")),
        (401, lambda agent, _: agent.http.call("POST", "/agent/v1/tasks:lease", b"{}")),
        (403, lambda agent, _: agent.join(token="gpuaas-of-nobody")),
        (404, lambda agent, _: agent.http.call("POST", "/agent/v1/nowhere", b"{}")),
        (405, lambda agent, _: agent.http.call("GET", "/agent/v1/join")),
        (409, lambda agent, _: agent.lease(sequence=1)),
        (413, lambda agent, _: agent.say("POST", "/tasks:lease", b" " * 1_100_000)),
        (429, _limited),
        (500, _broken),
        (503, _full),
    ],
)
def test_a_host_knows_every_refusal_for_ours_by_its_form(
    joined: Agent,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    ask: Callable[[Agent, pytest.MonkeyPatch], Any],
) -> None:
    joined.lease()
    answer = ask(joined, monkeypatch)
    told = Answer(answer.status_code, answer.headers, answer.content)
    problem, _, foreign = refusal_in(told)
    assert (told.status, foreign) == (status, False)
    assert problem.code == json.loads(told.content)["code"]
    assert not is_taken(told)


def test_a_host_knows_every_yes_for_ours_by_its_form(agent: Agent) -> None:
    answers = [agent.join(), agent.lease()]
    answers.append(agent.say("POST", "/credential:renew", {"public_key": agent.public_key}))
    report = {"boot_id": BOOT, "seq": 1, "at": 0, "vms": [], "devices": {}, "conditions": []}
    answers.append(agent.say("PUT", "/nodes/self/observed", report))
    task = NodeTask.objects.get()
    beat = {"lease_epoch": task.lease_epoch, "step": "looks", "percent": 1}
    answers.append(agent.say("POST", f"/tasks/{task.pk}/heartbeat", beat))
    failure = {"code": "hw", "detail": "no", "retryable": True}
    failure |= {"lease_epoch": task.lease_epoch, "boot_id": BOOT}
    answers.append(agent.say("POST", f"/tasks/{task.pk}/fail", failure))
    told = [Answer(one.status_code, one.headers, one.content) for one in answers]
    assert [is_taken(one) for one in told] == [True] * 6


def test_an_observation_is_kept_once_in_order(joined: Agent) -> None:
    joined.lease()
    report = {"boot_id": BOOT, "seq": 1, "at": 0, "vms": [], "devices": {}, "conditions": []}
    assert joined.say("PUT", "/nodes/self/observed", report).status_code == 200
    stale = joined.say("PUT", "/nodes/self/observed", report)
    assert (stale.status_code, stale.json()["code"]) == (409, "observed_stale")
    assert Node.objects.get(pk=joined.node.pk).observed_seq == 1


def test_a_renewed_credential_works_and_a_revoked_one_does_not(joined: Agent) -> None:
    renewed = joined.say("POST", "/credential:renew", {"public_key": joined.public_key})
    old, joined.credential = joined.credential, renewed.json()["credential_id"]
    assert joined.lease().status_code == 200
    assert joined.lease(credential=old).status_code == 200
    agents.credential_revoke(node_id=joined.node.pk, reason="stolen", actor=OPERATOR)
    assert joined.lease().json()["code"] == "credential_invalid"


def test_a_host_that_asks_too_often_is_told_so_and_its_message_is_not_carried_out(
    joined: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AgentView, "policy", limits.Policy("few", 2, 6000, shared=False))
    report = {"boot_id": BOOT, "seq": 1, "at": 1, "vms": [], "devices": {}, "conditions": []}
    assert joined.say("PUT", "/nodes/self/observed", report).status_code == 200
    for _ in range(2):
        assert joined.lease(sequence=1).json()["code"] == "replayed_message", "not its own"
    assert joined.say("PUT", "/nodes/self/observed", report | {"seq": 2}).status_code == 200
    answer = joined.say("PUT", "/nodes/self/observed", report | {"seq": 3})
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert answer.headers["RateLimit"].startswith('"few";r=0')
    assert Node.objects.get(pk=joined.node.pk).observed_seq == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda body: body.replace(b'"seq": 3', b'"seq": 2'), 409),
        (lambda body: body.replace(b'"at": 1', b'"at": 9'), 200),
        (lambda body: body.replace(b'"at": 1', b'"at": 1, "seq": 3'), 400),
        (lambda body: body[:-1], 400),
        (lambda body: body + b" ", 200),
        (lambda body: body.replace(b'"seq": 3', b'"seq": 03'), 400),
        (lambda body: body.replace(b'"vms": []', b'"vms": [1]'), 400),
        (lambda body: json.dumps(dict(reversed(json.loads(body).items()))).encode(), 200),
    ],
)
def test_a_report_passes_unread_only_where_its_bytes_were_read_before(
    joined: Agent, change: Callable[[bytes], bytes], status: int
) -> None:
    report = {"boot_id": BOOT, "at": 1, "vms": [], "devices": {}, "conditions": []}
    for seq in (1, 2):
        body = json.dumps({"boot_id": BOOT, "seq": seq} | report).encode()
        assert joined.say("PUT", "/nodes/self/observed", body).status_code == 200
    body = change(json.dumps({"boot_id": BOOT, "seq": 3} | report).encode())
    assert joined.say("PUT", "/nodes/self/observed", body).status_code == status
    row = Node.objects.get(pk=joined.node.pk)
    assert row.observed_seq == (3 if status == 200 else 2)
    assert (row.observed["vms"], row.observed["conditions"]) == ([], [])


def test_whoever_is_no_host_is_counted_by_network(
    joined: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AgentView, "policy", limits.Policy("few", 2, 6000, shared=False))
    addresses = ["2001:db8:7:7::1", "2001:db8:7:7::2", "2001:db8:7:7::3", "2001:db8:7:6::1"]
    answers = [Caller().post("/agent/v1/tasks:lease", REMOTE_ADDR=one) for one in addresses]
    assert [answer.status_code for answer in answers] == [401, 401, 429, 401]
