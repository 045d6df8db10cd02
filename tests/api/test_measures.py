"""Does a real lease's life stand in the metrics, in the format that Prometheus is strict about?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser
from prometheus_client.samples import Sample

from gpuaas.kernel import clock, ids, on_the_spot
from gpuaas.kernel.measuring import measures_sweep
from gpuaas.kernel.shared_counts import SharedCounts
from gpuaas.version import VERSION
from placement.models import NodeTask
from placement.services import tasks
from placement.services.drift import drift_sweep
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.architecture.tree import ROOT
from tests.builders import BOOT, Host, a_catalogue, a_host, a_tenant, drive_all
from tests.kernel.factories import all_sealed

pytestmark = pytest.mark.django_db(transaction=True)

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LEASES = "/projects/default/allocations"


@pytest.fixture(autouse=True)
def none_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of this test alone: what other tests counted is handed on elsewhere."""
    url = settings.CONFIG.redis_url
    monkeypatch.setattr(on_the_spot, "counts", SharedCounts(url, f"gpuaas:test:{ids.new_id()}"))


@pytest.fixture
def host() -> Host:
    a_catalogue()
    return a_host()


@pytest.fixture
def acme(host: Host) -> Caller:
    return caller_of(a_tenant("acme"))


def scraped(token: str = "") -> str:
    headers = {"Accept": OPENMETRICS} | ({"Authorization": f"Bearer {token}"} if token else {})
    answer = Client().get("/metrics", headers=headers)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    return answer.content.decode()


def read_strictly(text: str) -> list[Metric]:
    """The families of a scrape; ValueError where it is not as OpenMetrics has it."""
    found = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # not typed
    return list(found)


def samples() -> list[Sample]:
    """What a scrape tells once everything that happened is counted, read strictly."""
    all_sealed()
    measures_sweep()
    return [sample for family in read_strictly(scraped()) for sample in family.samples]


def told(name: str, **labels: str) -> float:
    """The sum of the samples of a name that carry these labels."""
    wanted = set(labels.items())
    return sum(
        float(one.value)
        for one in samples()
        if one.name == f"gpuaas_{name}" and wanted <= set(one.labels.items())
    )


def leased(acme: Caller, host: Host) -> str:
    """A lease that is handed over; its id."""
    answer = acme.post(LEASES, order_body(slots=2))
    assert answer.status_code == 202
    assert host.work() == 1
    return str(answer.json()["target"]["id"])


def given_back(acme: Caller, host: Host) -> str:
    lease = leased(acme, host)
    answer = acme.post(f"/allocations/{lease}/actions/release", {"reason": "done"})
    assert answer.status_code == 202, answer.content
    assert host.work() == 1
    return lease


def test_each_phase_of_a_lease_is_timed_by_shape_and_sku(acme: Caller, host: Host) -> None:
    given_back(acme, host)
    lease = {"shape": "gpu_slice", "sku": "h100.slice"}
    phases = {
        phase: told("allocation_phase_seconds_count", phase=phase, **lease)
        for phase in (
            *("waiting", "placed", "provisioning", "active", "releasing", "until_active"),
            *("cleanup_blocked", "preempting"),
        )
    }
    assert phases == {
        **dict.fromkeys(phases, 1.0),
        "cleanup_blocked": 0.0,
        "preempting": 0.0,
    }
    parts = ("waiting", "placed", "provisioning")
    together = sum(told("allocation_phase_seconds_sum", phase=one) for one in parts)
    whole = told("allocation_phase_seconds_sum", phase="until_active")
    assert whole == pytest.approx(together, abs=0.005)
    assert told("allocation_phase_seconds_bucket", phase="active", le="+Inf") == 1


def test_ended_runs_are_counted_by_outcome_and_their_steps_timed(acme: Caller, host: Host) -> None:
    given_back(acme, host)
    acme.post(LEASES, order_body(slots=1))
    [task] = host.lease()
    host.fail(task)
    drive_all()
    host.work()
    runs = {
        (kind, outcome): told("workflow_runs_total", workflow=kind, outcome=outcome)
        for kind in ("allocation.create", "allocation.release")
        for outcome in ("succeeded", "failed")
    }
    assert runs == {
        ("allocation.create", "succeeded"): 1,
        ("allocation.create", "failed"): 1,
        ("allocation.release", "succeeded"): 2,
        ("allocation.release", "failed"): 0,
    }
    of = {"workflow": "allocation.create", "step": "provision"}
    assert told("workflow_step_duration_seconds_count", **of) == 2
    assert told("workflow_runs_standing", workflow="allocation.create") == 0


def test_time_in_each_state_and_moves_are_told_by_kind(acme: Caller, host: Host) -> None:
    given_back(acme, host)
    noun = "placement.allocation"
    passed = ("placed", "provisioning", "active", "releasing")
    for state in passed:
        stay = told("state_time_in_state_seconds_count", kind=noun, state=state)
        moves = [
            told(f"state_{way}_total", kind=noun, state=state) for way in ("entered", "exited")
        ]
        assert (state, stay, moves) == (state, 1, [1, 1])
    assert told("state_entered_total", kind=noun, state="released") == 1
    assert told("state_exited_total", kind=noun, state="released") == 0
    claims = told("state_time_in_state_seconds_count", kind="placement.claim", state="active")
    assert claims == 2


def test_leases_of_tasks_that_a_host_lets_run_out_or_loses_in_a_restart_are_counted(
    acme: Caller, host: Host
) -> None:
    acme.post(LEASES, order_body(slots=2))
    assert told("agent_lease_lost_total") == 0
    [task] = host.lease()
    late = clock.db_now() - timedelta(seconds=1)
    NodeTask.objects.filter(pk=task.pk).update(lease_until=late)
    assert tasks.leases_sweep() == 1
    assert told("agent_lease_lost_total", kind="slice.vm_provision") == 1
    host.lease()
    host.boot = BOOT.replace("1", "2")
    [task] = host.lease()
    assert told("agent_lease_lost_total", kind="slice.vm_provision") == 2
    NodeTask.objects.filter(pk=task.pk).update(attempt=task.max_attempts, lease_until=late)
    assert tasks.leases_sweep() == 1
    assert NodeTask.objects.get(pk=task.pk).state == "failed"
    assert told("agent_lease_lost_total", kind="slice.vm_provision") == 3


def test_a_task_that_a_host_gives_back_is_no_lost_lease(acme: Caller, host: Host) -> None:
    acme.post(LEASES, order_body(slots=2))
    [task] = host.lease()
    host.fail(task, retryable=True)
    assert told("state_exited_total", kind="placement.nodetask", state="leased") == 1
    assert told("agent_lease_lost_total") == 0


def test_decisions_are_timed_by_action_and_class_of_outcome(acme: Caller, host: Host) -> None:
    acme.post(LEASES, order_body(slots=8))
    acme.post(LEASES, order_body(slots=1))
    acme.post(LEASES, order_body(slots=1, wait=True))
    acme.post(LEASES, order_body(slots=1, tier="none-such"))
    ends = {
        outcome: told(
            "admission_duration_seconds_count", workflow="allocation.create", outcome=outcome
        )
        for outcome in ("admitted", "no_capacity", "denied")
    }
    assert ends == {"admitted": 1, "no_capacity": 2, "denied": 1}
    assert 0 < told("admission_duration_seconds_sum", outcome="admitted") < 60


def test_a_wish_for_quota_is_timed_as_well(acme: Caller) -> None:
    wish = {
        "resource_class": "h100-slot",
        "nominal_asked_milli": 96_000,
        "justification": "a large run",
    }
    answer = acme.post("/quota-increases", wish)
    assert answer.status_code in (201, 202), answer.content
    assert told("admission_duration_seconds_count", workflow="quota.increase") == 1


def test_attempts_of_placement_are_counted_by_what_came_of_them(acme: Caller, host: Host) -> None:
    acme.post(LEASES, order_body(slots=8))
    acme.post(LEASES, order_body(slots=1))
    acme.post(LEASES, {**order_body(), "sku": "h100.node", "slots": None})
    slice_, node = {"shape": "gpu_slice"}, {"shape": "baremetal"}
    full = {"outcome": "unplaced", "reason": "sku_unavailable"}
    assert told("placement_attempts_total", outcome="placed", reason="", **slice_) == 1
    assert told("placement_attempts_total", **slice_, **full) == 1
    assert told("placement_attempts_total", **node) <= 1
    assert told("placement_candidates_count", **slice_) >= 2
    assert told("placement_candidates_sum", **slice_) == 1, "one host, and none when it was full"


def test_a_comparison_of_all_hosts_is_timed(acme: Caller) -> None:
    drift_sweep()
    drift_sweep()
    assert told("reconcile_duration_seconds_count") == 2


def test_the_version_comes_with_its_commit(acme: Caller) -> None:
    [build] = [one for one in samples() if one.name == "gpuaas_build_info"]
    assert build.labels["version"] == VERSION
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", build.labels["commit"])


def test_it_is_told_up_to_when_is_counted(acme: Caller, host: Host) -> None:
    before = clock.db_now().timestamp()
    assert told("measures_until_timestamp_seconds") >= before


def test_a_whole_scrape_stands_before_a_strict_reader(acme: Caller, host: Host) -> None:
    given_back(acme, host)
    acme.post(LEASES, order_body(slots=8))
    acme.post(LEASES, order_body(slots=1, wait=True))
    all_sealed()
    measures_sweep()
    text = scraped(operator_caller().token)
    assert text.endswith("# EOF\n")
    families = read_strictly(text)
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    seen = set()
    for family in families:
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            series = (sample.name, tuple(sorted(sample.labels.items())))
            assert series not in seen
            seen.add(series)
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            for value in sample.labels.values():
                assert not re.search(r"@|[0-9a-f]{8}-[0-9a-f]{4}-|GPU-", value), sample


def test_every_family_has_a_row_in_the_document_and_no_row_is_of_none() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(gpuaas_\w+)(?:\{([\w,]*)\})?` \|", text, re.M)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", scraped(operator_caller().token), re.M))
    assert sorted(name for name, _ in rows) == sorted(
        f"{name}_total" if kind == "counter" else name for name, kind in kinds.items()
    )


def test_labels_are_those_of_the_document(acme: Caller, host: Host) -> None:
    given_back(acme, host)
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(gpuaas_\w+)(?:\{([\w,]*)\})?` \|", text, re.M)
    documented = {name: set(labels.split(",")) - {""} for name, labels in rows}
    wrong = {}
    for one in samples():
        name = re.sub(r"_(bucket|count|sum)$", "", one.name)
        name = name if name in documented else one.name
        if set(one.labels) - {"le"} != documented[name]:
            wrong[name] = set(one.labels)
    assert wrong == {}


def test_a_scrape_takes_as_many_statements_after_as_before(acme: Caller, host: Host) -> None:
    def statements() -> int:
        all_sealed()
        measures_sweep()
        with CaptureQueriesContext(connection) as seen:
            scraped()
        return len(seen)

    given_back(acme, host)
    before = statements()
    for _ in range(3):
        given_back(acme, host)
    assert statements() == before
