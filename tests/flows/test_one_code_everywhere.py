"""Does a reason carry one code in the API, at the command line, on the page and in the metrics?

Each is produced for real, on each surface where it can be, and then read on all of them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from gpuaas.kernel.clock import FakeClock, use
from gpuaas.kernel.clock import now as time_now
from gpuaas.kernel.errors import catalogue
from placement.models import Node, NodeCapability, ReadinessEvidence
from placement.services import evidence
from placement.services.allocations import allocation_release
from placement.services.breaker import breaker_set
from placement.services.drift import drift_sweep
from placement.services.terms import terms_set
from tenants.models import SlaTier
from tenants.services.tenancy import tenant_suspend
from tests.admission.test_policy_rules import a_rule, switched_on
from tests.api.client import order_body
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant
from tests.flows.everywhere import (
    Reader,
    a_platform_operator,
    an_owner,
    code_on,
    codes_in,
    decided,
    standing,
)
from tests.placement.drifting import Broken

pytestmark = pytest.mark.django_db(transaction=True)
LEASES = "/projects/default/allocations"
RUNS = "/projects/default/workloads"


@pytest.fixture
def acme(db: None) -> TenantWorld:
    a_catalogue()
    return a_tenant("acme", envelope_slots=6)


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host()


@pytest.fixture
def owner(acme: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Reader:
    return an_owner(acme, live_server.url, tmp_path)


@pytest.fixture
def operator(live_server: LiveServer, tmp_path: Path) -> Reader:
    return a_platform_operator(live_server.url, tmp_path)


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    fake = FakeClock(time_now() + timedelta(seconds=60))
    with use(fake):
        yield fake


def nothing(acme: TenantWorld) -> None:
    """The world as it is."""


def a_strict_rule(acme: TenantWorld) -> None:
    switched_on(a_rule())


def a_tier_half_made(acme: TenantWorld) -> None:
    SlaTier.objects.filter(name="standard").update(isolation="")


def a_full_host(acme: TenantWorld) -> None:
    a_tenant("globex").order(slots=8)


def a_neighbour(acme: TenantWorld) -> None:
    a_tenant("globex").order(slots=1)
    terms_set(noun="sku", name="h100.slice", reason="sold", actor=OPERATOR, alone="node")


def a_suspension(acme: TenantWorld) -> None:
    tenant_suspend(tenant_id=acme.tenant.pk, reason="unpaid", actor=OPERATOR)


ONE = ("allocation", "create", "--sku", "h100.slice", "--slots", "1")
ELSEWHERE = ("workload", "submit", "far", "--kind", "job", "--sku", "h100.slice")
REFUSED: dict[str, tuple[Callable[[TenantWorld], None], str, dict[str, Any], tuple[str, ...], str]]
REFUSED = {
    "slots_out_of_range": (
        nothing,
        LEASES,
        order_body(slots=60),
        (*ONE[:-1], "60"),
        "denied",
    ),
    "policy_forbids": (a_strict_rule, LEASES, order_body(slots=5), (*ONE[:-1], "5"), "denied"),
    "envelope_exceeded": (nothing, LEASES, order_body(slots=7), (*ONE[:-1], "7"), "denied"),
    "authority_incomplete": (a_tier_half_made, LEASES, order_body(), ONE, "denied"),
    "tenant_suspended": (a_suspension, LEASES, order_body(), ONE, "denied"),
    "forbidden_by_locality": (
        nothing,
        RUNS,
        {"kind": "job", "name": "far", "sku": "h100.slice", "zones": ["moon"]},
        (*ELSEWHERE, "--zone", "moon"),
        "forbidden_by_locality_or_topology",
    ),
    "forbidden_by_topology": (
        a_neighbour,
        LEASES,
        order_body(),
        ONE,
        "forbidden_by_locality_or_topology",
    ),
    "sku_unavailable": (a_full_host, LEASES, order_body(), ONE, "no_capacity"),
}


@pytest.mark.parametrize("code", sorted(REFUSED))
def test_a_refusal_has_one_code(acme: TenantWorld, host: Host, owner: Reader, code: str) -> None:
    arrange, address, body, command, outcome = REFUSED[code]
    arrange(acme)
    before = {end: decided(outcome=end) for end in ENDS}
    problem = owner.rest.post(address, body).json()
    assert problem["code"] == code
    assert problem["docs"] == f"/docs/reasons/{code}"
    request = problem["facts"]["request"]
    explained = owner.rest.get(f"/admission-requests/{request}/explain").json()
    assert (explained["code"], explained["outcome"]) == (code, outcome)
    said = owner.line(*command)
    assert f"error: {code}: " in said
    assert f"what would help: {catalogue()[code].ways_out['cli']}" in said
    assert code in owner.line("explain", f"request/{request}").split()
    page = owner.page(f"/t/acme/requests/{request}/")
    assert code in code_on(page)
    assert catalogue()[code].ways_out["page"] in html.unescape(page)
    assert code in code_on(owner.page(f"/t/acme/decisions/?outcome={outcome}"))
    # One refusal over REST and one at the command line, and nothing else has moved.
    assert decided(code=code, outcome=outcome) == 2
    moved = {end: decided(outcome=end) - before[end] for end in ENDS}
    assert moved == {**dict.fromkeys(ENDS, 0), outcome: 2}


ENDS = (
    "admitted",
    "denied",
    "waiting_for_authority",
    "forbidden_by_locality_or_topology",
    "no_capacity",
)


def test_what_waits_has_one_code_until_it_is_placed(
    acme: TenantWorld, host: Host, owner: Reader
) -> None:
    code = "waiting_for_capacity"
    a_full_host(acme)
    owner.rest.post(LEASES, order_body(wait=True))
    (asked,) = owner.rest.get("/admission-requests?state=queued").json()["items"]
    assert asked["reason"] == code
    assert code in owner.line("explain", f"request/{asked['id']}").split()
    assert code in owner.line("request", "list", "--state", "queued", "-o", "wide")
    assert code in code_on(owner.page(f"/t/acme/requests/{asked['id']}/"))
    assert standing(code) == 1
    assert decided(code=code, outcome="no_capacity") == 1
    owner.rest.post(f"/admission-requests/{asked['id']}/actions/withdraw")
    assert standing(code) == 0


def test_what_waits_for_authority_is_told_apart(
    acme: TenantWorld, host: Host, owner: Reader
) -> None:
    acme.order(slots=6)
    waits = owner.rest.post(LEASES, order_body(wait=True))
    assert waits.status_code == 202
    assert decided(outcome="waiting_for_authority", code="envelope_exceeded") == 1
    assert decided(outcome="no_capacity") == 0
    assert standing("envelope_exceeded") == 1
    (row,) = owner.rest.get("/admission-requests?outcome=waiting_for_authority").json()["items"]
    listed = owner.line("request", "list", "--outcome", "waiting_for_authority", "-o", "json")
    assert row["id"] in listed
    assert "waiting for authority" in owner.page("/t/acme/decisions/?outcome=waiting_for_authority")


def test_a_blocked_cleanup_has_one_code(
    acme: TenantWorld, host: Host, owner: Reader, operator: Reader
) -> None:
    code = "cleanup_blocked"
    row = acme.order(slots=1, name="mine").allocation
    assert row is not None
    host.work()
    allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    assert code in codes_in(owner.rest.get(f"/allocations/{row.pk}/explain").json())
    assert code in owner.line("allocation", "explain", "mine")
    assert code in code_on(owner.page(f"/t/acme/allocations/{row.pk}/"))
    assert code in code_on(operator.page(f"/console/allocations/{row.pk}/"))
    assert standing(code) == 1


def test_evidence_that_fails_has_one_code(host: Host, operator: Reader) -> None:
    code = "evidence_failed"
    rows = ReadinessEvidence.objects.filter(node=host.node, check_name="iommu")
    rows.update(verdict="fail", reason="it is off")
    NodeCapability.objects.filter(node=host.node).update(rejudge=True)
    evidence.readiness_sweep()
    told = operator.rest.get("/nodes/host-1/evidence").json()
    assert code in codes_in([one["misses"] for one in told["capabilities"]])
    assert code in operator.line("node", "evidence", "host-1").split()
    assert code in code_on(operator.page("/console/nodes/host-1/"))
    assert standing(code) == 1


def test_a_difference_has_one_code(host: Host, operator: Reader, clock: FakeClock) -> None:
    code = "drift_vm_unknown"
    broken = Broken(host)
    broken.stranger("somebody-s")
    for _ in range(2):
        clock.advance(90)
        broken.report()
        drift_sweep()
    assert codes_in(operator.rest.get("/drift").json()["items"]) == {code}
    assert code in operator.line("drift", "list").split()
    assert code in code_on(operator.page("/console/drift/"))
    assert code in code_on(operator.page("/console/nodes/host-1/"))
    assert standing(code) == 1


def test_what_the_breaker_holds_has_one_code(
    acme: TenantWorld, host: Host, operator: Reader, clock: FakeClock
) -> None:
    code = "breaker_held"
    breaker_set(pool="default", percent=0, floor=0, window_s=600, reason="calm", actor=OPERATOR)
    broken = Broken(host)
    row = acme.order(slots=1).allocation
    assert row is not None
    broken.work()
    left = broken.machines[str(row.pk)]
    allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    broken.work()
    broken.machines[str(row.pk)] = left
    for _ in range(2):
        clock.advance(90)
        broken.report()
        drift_sweep()
    assert codes_in(operator.rest.get("/breaker/held").json()["items"]) == {code}
    assert code in operator.line("breaker", "list").split()
    assert code in code_on(operator.page("/console/drift/"))
    assert standing(code) == 1


def test_a_silent_node_is_counted_under_its_code(host: Host) -> None:
    assert standing("node_silent") == 0
    Node.objects.filter(pk=host.node.pk).update(health="unknown")
    assert standing("node_silent") == 1


def test_every_code_is_explained_alike_on_every_surface(owner: Reader) -> None:
    listed = owner.terminal.json("reason", "list")
    assert [one["code"] for one in listed] == list(catalogue())
    for one in listed:
        entry = catalogue()[one["code"]]
        told = owner.rest.get(f"/reasons/{entry.code}").json()
        assert (told["title"], told["status"]) == (entry.title, entry.status)
        assert told["ways_out"] == entry.ways_out
        assert told["unblock"] == entry.ways_out["api"]
        assert (one["title"], one["unblock"]) == (entry.title, entry.ways_out["cli"])
        page = html.unescape(re.sub(r"<[^>]+>", " ", owner.page(f"/docs/reasons/{entry.code}")))
        assert entry.code in page
        assert entry.title in page
        assert entry.ways_out["page"] in page
    said = owner.line("reason", "describe", "sku_unavailable")
    assert "No capacity for this now" in said
    assert "--queue" in said
    assert "wait: true" not in said
    assert owner.terminal.run("reason", "describe", "no_such_code").exit_code == 3


def test_each_end_is_counted_apart_on_the_page_over_rest_and_in_the_metrics(
    acme: TenantWorld, host: Host, owner: Reader, operator: Reader
) -> None:
    far = {"kind": "job", "name": "far", "sku": "h100.slice", "zones": ["moon"]}
    acts: dict[str, Callable[[], Any]] = {
        "admitted": lambda: owner.rest.post(LEASES, order_body(slots=1)),
        "denied": lambda: owner.rest.post(LEASES, order_body(slots=7)),
        "forbidden_by_locality_or_topology": lambda: owner.rest.post(RUNS, far),
        "no_capacity": lambda: (
            a_tenant("globex").order(slots=7),
            owner.rest.post(LEASES, order_body()),
        ),
        "waiting_for_authority": lambda: owner.rest.post(LEASES, order_body(slots=6, wait=True)),
    }

    def counted() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        page = operator.page("/console/decisions/")
        shown = re.findall(
            r'outcome=(\w+)"[^>]*><div class="figure">(\d+)</div>', html.unescape(page)
        )
        rest = {
            end: len(owner.rest.get(f"/admission-requests?outcome={end}").json()["items"])
            for end in ENDS
        }
        return {k: int(v) for k, v in shown}, rest, {end: int(decided(outcome=end)) for end in ENDS}

    before = counted()
    assert set(before[0]) == set(ENDS)
    for end, act in acts.items():
        act()
        after = counted()
        page, rest, metric = (
            {k: new[k] - old[k] for k in ENDS if new[k] != old[k]}
            for new, old in zip(after, before, strict=True)
        )
        assert rest == {end: 1}
        # The other tenant's admission, which took the room, is not this tenant's to read.
        others = {"admitted": 1} if end == "no_capacity" else {}
        assert page == metric == {end: 1, **others}
        before = after
