"""Is it told truthfully whether the process lives, can serve, and how the platform does?"""

from __future__ import annotations

import re
from datetime import timedelta
from unittest import mock

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from gpuaas.kernel.models import WorkflowRun
from placement.models import Node
from tests.api.client import caller_of, operator_caller, order_body
from tests.builders import a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


def test_the_process_lives() -> None:
    assert Client().get("/livez").json() == {"status": "ok"}
    for path in ("/livez", "/readyz"):
        for refused in (Client().post(path), Client().options(path)):
            assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
            assert refused.headers["Content-Type"] == "application/problem+json"
            assert refused.json()["code"] == "method_not_allowed"


def test_the_process_is_ready_and_says_why() -> None:
    answer = Client().get("/readyz?verbose")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "ok",
            "checks": {"database": "ok", "migrations": "ok", "broker": "ok", "outbox": "ok"},
        },
    )
    assert Client().get("/readyz").json() == {"status": "ok"}


def test_without_a_broker_it_serves_on_and_says_so() -> None:
    with mock.patch("gpuaas.api.views.health._broker", side_effect=ConnectionError("secret")):
        answer = Client().get("/readyz?verbose")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["checks"]["broker"] == "failed: ConnectionError"


def test_without_a_database_it_is_not_ready() -> None:
    with mock.patch("gpuaas.api.views.health._database", side_effect=ConnectionError("secret")):
        answer = Client().get("/readyz?verbose")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "secret" not in answer.content.decode()


def numbers(token: str = "") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    text = Client().get("/metrics", headers=headers).content.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_what_is_there() -> None:
    a_catalogue()
    a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=8))
    acme.post("/projects/default/allocations", order_body())
    found = numbers()
    assert found["gpuaas_nodes", (("pool", "default"), ("posture", "fully_allocated"))] == 1
    assert found["gpuaas_allocations", (("shape", "gpu_slice"), ("state", "placed"))] == 1
    refused = (
        ("code", "sku_unavailable"),
        ("outcome", "no_capacity"),
        ("workflow", "allocation.create"),
    )
    assert found["gpuaas_admission_decisions_total", refused] == 1
    assert ("gpuaas_outbox_pending", ()) in found


def test_metrics_tell_slots_gpus_and_envelopes_by_the_names_that_dashboards_know() -> None:
    a_catalogue()
    host = a_host()
    a_host("host-2")
    closed = Node.objects.get(name="host-2")
    Node.objects.filter(pk=closed.pk).update(schedulable=False)
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=3))
    token = operator_caller().token
    found = numbers(token)

    def of(name: str, **labels: str) -> float:
        return found[f"gpuaas_{name}", tuple(sorted(labels.items()))]

    slots = {s: of("slots", pool="default", sku="h100.slice", state=s) for s in ("taken", "free")}
    assert slots == {"taken": 3, "free": 5}
    assert of("slots", pool="default", sku="h100.slice", state="closed") == 8
    assert of("gpus", pool="default", model="H100", state="ready") == 16
    assert of("tenant_envelope_limit", tenant="acme", resource="h100-slot") == 64
    assert of("tenant_envelope_usage", tenant="acme", resource="h100-slot") == 3
    assert of("tenant_envelope_burst_used", tenant="acme", resource="h100-slot") == 0
    assert not any(name.startswith("gpuaas_tenant_") for name, _ in numbers())
    seen = host.fresh().last_seen_at
    assert seen is not None
    assert of("agent_last_seen_timestamp_seconds", node="host-1") == pytest.approx(seen.timestamp())
    acme.post("/projects/default/allocations", order_body(slots=8, wait=True))
    found = numbers()
    assert of("queue_depth", pool="default", tier="standard") == 1
    late = timezone.now() - timedelta(minutes=1)
    WorkflowRun.objects.filter(kind="allocation.create").update(deadline_at=late)
    found = numbers()
    assert of("workflow_stuck", workflow="allocation.create") >= 1


def test_a_scrape_is_well_formed_and_names_no_id_or_address() -> None:
    a_catalogue()
    a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=3))
    text = Client().get("/metrics").content.decode()
    lines = text.splitlines()
    told = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(told) == len(set(told))
    assert text.endswith("\n")
    for line in (one for one in lines if not one.startswith("#")):
        name = re.split(r"[{ ]", line, maxsplit=1)[0]
        spread = re.fullmatch(r"(.+)_(bucket|count|sum)", name)
        if spread and f"# TYPE {spread[1]} histogram" in text:
            name = spread[1]
        assert name.startswith("gpuaas_"), line
        assert any(name == family for family in told), line
        assert name.endswith("_total") == (f"# TYPE {name} counter" in text), line
        assert not re.search(r"@|[0-9a-f]{8}-[0-9a-f]{4}-|GPU-", line), line
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)


LOCAL = {"127.0.0.1:8000": 200, "[::1]:8000": 200, "localhost:8000": 200, "evil.example": 403}


def test_metrics_are_for_operators_and_the_machine_itself() -> None:
    a_catalogue()
    away = {"REMOTE_ADDR": "192.0.2.7"}
    assert Client(**away).get("/metrics").status_code == 403  # type: ignore[arg-type]  # META
    forwarded = Client().get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"})
    assert forwarded.status_code == 403
    lured = {host: Client().get("/metrics", HTTP_HOST=host).status_code for host in LOCAL}
    assert lured == LOCAL, "a page that has its own name lead here is not the machine itself"
    tenant = caller_of(a_tenant("acme"))
    assert (
        tenant.http.get("/metrics", HTTP_AUTHORIZATION=f"Bearer {tenant.token}").status_code == 403
    )
    operator = operator_caller()
    answer = operator.http.get(
        "/metrics", HTTP_AUTHORIZATION=f"Bearer {operator.token}", REMOTE_ADDR="192.0.2.7"
    )
    assert answer.status_code == 200
