"""Can a tenant ask for capacity, see why, watch it, rename it and give it back over the API?"""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from gpuaas.kernel import events, ids
from gpuaas.kernel.actor import SYSTEM
from placement.models import Allocation
from placement.services import allocations as service
from tenants.models import SlaTier, User
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_tenant
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(world: TenantWorld) -> Host:
    return a_host()


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


PATH = "/projects/default/allocations"


def leased(caller: Caller, host: Host, **wishes: object) -> dict[str, object]:
    """An active allocation, by way of the API."""
    answer = caller.post(PATH, order_body(**wishes))
    assert answer.status_code == 202, answer.json()
    host.work()
    listed = caller.get("/allocations").json()["items"]
    found: dict[str, object] = listed[0]
    return found


def test_a_request_is_answered_with_the_operation_that_makes_it(acme: Caller, host: Host) -> None:
    answer = acme.post(PATH, order_body(slots=2, name="training"))
    assert answer.status_code == 202
    body = answer.json()
    assert answer.headers["Location"] == f"/api/v1/operations/{body['id']}"
    assert body["done"] is False
    assert body["kind"] == "allocation.create"
    shown = acme.get(f"/operations/{body['id']}").json()
    assert shown["target"]["id"] == body["target"]["id"]
    assert [step["name"] for step in shown["steps"]]


def test_an_active_allocation_shows_how_to_get_in_and_its_four_states(
    acme: Caller, host: Host
) -> None:
    item = leased(acme, host, slots=2, name="training")
    answer = acme.get(f"/allocations/{item['id']}")
    body = answer.json()
    assert body["state"] == "active"
    assert body["connection"]["command"] == "ssh -p 2222 ubuntu@127.0.0.1"
    assert set(body["states"]) == {"desired", "observed", "executing", "projected"}
    assert body["node"] is None
    assert body["price_hour_micro"] == 4_000_000
    assert answer.headers["ETag"].startswith(f'"{body["version"]}.')


def test_an_operator_sees_the_node_and_everybodys_allocations(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    operator = operator_caller()
    listed = operator.get("/allocations").json()["items"]
    assert [one["id"] for one in listed] == [item["id"]]
    assert operator.get(f"/allocations/{item['id']}").json()["node"]["name"] == "host-1"


def test_what_fits_nowhere_is_refused_and_the_decision_stays(acme: Caller, host: Host) -> None:
    assert acme.post(PATH, order_body(slots=8)).status_code == 202
    answer = acme.post(PATH, order_body(slots=1))
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "sku_unavailable")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert body["retryable"] is True
    assert body["unblock"]
    request = body["facts"]["request"]
    explained = acme.get(f"/admission-requests/{request}/explain").json()
    assert explained["decision"] == body["decision"]
    assert explained["verdict"] == "deny"
    assert explained["gates"][-1]["gate"] == "capacity"
    assert Allocation.objects.count() == 1


def test_above_the_envelope_is_refused_with_the_numbers(host: Host) -> None:
    small = a_tenant("small", envelope_slots=2)
    answer = caller_of(small).post(PATH, order_body(slots=3))
    body = answer.json()
    assert (answer.status_code, body["code"]) == (403, "envelope_exceeded")
    numbers = {value for value in body["facts"].values() if isinstance(value, int)}
    assert {2000, 3000} <= numbers


def test_a_key_that_is_nobodys_and_a_tier_that_is_anothers_are_refused_by_name(
    acme: Caller, host: Host
) -> None:
    unknown = acme.post(PATH, order_body(ssh_keys=[str(ids.new_id())]))
    assert (unknown.status_code, unknown.json()["code"]) == (400, "ssh_key_missing")
    SlaTier.objects.create(name="gold", title="Gold", priority_band=0, preemptible=False)
    other = acme.post(PATH, order_body(tier="gold"))
    assert (other.status_code, other.json()["code"]) == (403, "tier_not_allowed")
    assert "gold" in other.json()["detail"]
    assert Allocation.objects.count() == 0


def test_with_wait_what_does_not_fit_queues_and_can_be_withdrawn(acme: Caller, host: Host) -> None:
    acme.post(PATH, order_body(slots=8))
    answer = acme.post(PATH, order_body(slots=1, wait=True))
    assert answer.status_code == 202
    (waiting,) = acme.get("/admission-requests?state=queued").json()["items"]
    assert waiting["reason"] == "waiting_for_capacity"
    gone = acme.post(f"/admission-requests/{waiting['id']}/actions/withdraw")
    assert gone.json()["state"] == "withdrawn"
    again = acme.post(f"/admission-requests/{waiting['id']}/actions/withdraw")
    assert again.status_code == 200


def test_a_plan_says_its_place_in_the_queue(acme: Caller, host: Host) -> None:
    acme.post(PATH, order_body(slots=8))
    plans = []
    for n in range(3):
        plans.append(acme.post(f"{PATH}/plan", order_body(slots=8, wait=True)).json())
        acme.post(PATH, order_body(slots=8, wait=True, name=f"wait-{n}"))
    assert [plan["fits"] for plan in plans] == [False, False, False]
    assert [plan["queue_position"] for plan in plans] == [1, 2, 3]
    denied = acme.post(f"{PATH}/plan", order_body(slots=8)).json()
    assert (denied["fits"], denied["queue_position"]) == (False, None)


def test_a_plan_prices_and_decides_and_changes_nothing(acme: Caller, host: Host) -> None:
    plan = acme.post(f"{PATH}/plan", order_body(slots=2)).json()
    assert plan["fits"] is True
    assert plan["price_hour_micro"] == 4_000_000
    assert plan["price_month_micro"] == 4_000_000 * 730
    assert plan["envelope"] == {
        "resource_class": "h100-slot",
        "before": 0,
        "after": 2000,
        "limit": 64000,
    }
    assert plan["node_hint"] is None
    dry = acme.call("POST", f"{PATH}?dry_run=server", order_body(slots=2))
    assert dry.json() == plan
    assert Allocation.objects.count() == 0
    assert acme.get("/admission-requests").json()["items"] == []


def test_a_release_ends_released_and_repeating_it_has_the_effect_of_one(
    acme: Caller, host: Host
) -> None:
    item = leased(acme, host)
    first = acme.post(f"/allocations/{item['id']}/actions/release", {"reason": "done"})
    # Nothing takes a cleanup back.
    assert first.json()["cancellable"] is False
    second = acme.post(f"/allocations/{item['id']}/actions/release", {"reason": "done"})
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    host.work()
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "released"


def test_a_blocked_cleanup_is_shown_and_an_operator_retries_it(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "cleanup_blocked"
    operator = operator_caller()
    path = f"/allocations/{item['id']}/actions/retry-cleanup"
    assert acme.post(path, {"reason": "mine"}).status_code == 403
    again = operator.post(path, {"reason": "the host was repaired"})
    assert again.status_code == 202
    host.work()
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "released"


def test_an_override_needs_two_people(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    one, other = operator_caller(), operator_caller("second@platform.test")
    path = f"/allocations/{item['id']}/actions"
    asked = one.post(f"{path}/override", {"reason": "the host is scrapped"})
    assert asked.status_code == 202
    assert asked.json()["items"][0]["approved_by"] is None
    own = one.post(f"{path}/approve-override", {"reason": "me again"})
    assert (own.status_code, own.json()["code"]) == (403, "second_person_needed")
    done = other.post(f"{path}/approve-override", {"reason": "seen it"})
    assert done.status_code == 200
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "released"


def test_the_timeline_tells_what_happened_without_naming_the_host(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    answer = acme.get(f"/allocations/{item['id']}/timeline")
    kinds = [entry["kind"] for entry in answer.json()["items"]]
    assert "placement.allocation.activate" in kinds
    assert b"host-1" not in answer.content
    assert b"host-1" not in acme.get(f"/allocations/{item['id']}/explain").content


def test_a_timeline_keeps_the_newest_and_pages_back_to_the_request(
    acme: Caller, host: Host
) -> None:
    item = leased(acme, host)
    row = Allocation.objects.get(pk=str(item["id"]))
    for count in range(600):
        events.record(
            kind="placement.allocation.note", subject=row, actor=SYSTEM, facts={"count": count}
        )
    path = f"/allocations/{item['id']}/timeline"
    newest = acme.get(path).json()
    assert [entry["facts"].get("count") for entry in newest["items"]] == list(range(599, 549, -1))
    seen, cursor = [], ""
    while True:
        page = acme.get(f"{path}?limit=250&cursor={cursor}").json()
        seen += page["items"]
        cursor = page["next"]
        if not cursor:
            break
    assert [e["facts"]["count"] for e in seen if "count" in e["facts"]] == list(range(599, -1, -1))
    assert seen[-1]["kind"] == "admission.admissionrequest.admit"
    assert [e["at"] for e in seen] == sorted((e["at"] for e in seen), reverse=True)
    for bad in ("x", newest["next"][:-4], acme.get("/allocations?limit=1").json()["next"] or "y"):
        assert acme.get(f"{path}?cursor={bad}").status_code == 400
    browser = Browser.of(User.objects.get(email="owner@acme.test"))
    shown = browser.get(f"/t/acme/allocations/{item['id']}/").content.decode()
    assert "599" in shown
    (older,) = re.findall(r'href="\?(cursor=[^"]+)">Older', shown)
    assert (
        "<b>499</b>"
        in browser.get(f"/t/acme/allocations/{item['id']}/?{html.unescape(older)}").content.decode()
    )


def test_a_rename_names_the_version_that_was_read(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    path = f"/allocations/{item['id']}"
    tag = acme.get(path).headers["ETag"]
    unread = acme.call("PATCH", path, {"name": "new"})
    assert (unread.status_code, unread.json()["code"]) == (428, "precondition_required")
    renamed = acme.call("PATCH", path, {"name": "new"}, HTTP_IF_MATCH=tag)
    assert renamed.json()["name"] == "new"
    late = acme.call("PATCH", path, {"name": "newer"}, HTTP_IF_MATCH=tag)
    assert (late.status_code, late.json()["code"]) == (412, "stale_resource_version")
    assert acme.call("PATCH", path, {"name": "x"}, HTTP_IF_MATCH="7").status_code == 400
    for other in ('"somebody-elses"', '""', 'W/"99"', '"98", "99.0123456789abcdef"'):
        assert acme.call("PATCH", path, {"name": "x"}, HTTP_IF_MATCH=other).status_code == 412
    among = f'"somebody-elses", W/{acme.get(path).headers["ETag"]}'
    assert acme.call("PATCH", path, {"name": "x"}, HTTP_IF_MATCH=among).status_code == 200


def test_a_rename_whose_answer_was_lost_is_repeated_with_its_key(acme: Caller, host: Host) -> None:
    path = f"/allocations/{leased(acme, host)['id']}"
    sent = {"HTTP_IF_MATCH": acme.get(path).headers["ETag"], "HTTP_IDEMPOTENCY_KEY": "k1"}
    first = acme.call("PATCH", path, {"name": "new"}, **sent)
    again = acme.call("PATCH", path, {"name": "new"}, **sent)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["ETag"] == first.headers["ETag"]
    other = acme.call("PATCH", path, {"name": "newer"}, **sent)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_release_may_name_the_version_that_it_means(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    path = f"/allocations/{item['id']}"
    tag = acme.get(path).headers["ETag"]
    acme.call("PATCH", path, {"name": "new"}, HTTP_IF_MATCH=tag)
    late = acme.post(f"{path}/actions/release", HTTP_IF_MATCH=tag)
    assert (late.status_code, late.json()["code"]) == (412, "stale_resource_version")
    assert acme.get(path).json()["state"] == "active"
    fresh = acme.get(path).headers["ETag"]
    assert acme.post(f"{path}/actions/release", HTTP_IF_MATCH=fresh).status_code == 202


def test_a_known_representation_is_not_sent_again(acme: Caller, host: Host) -> None:
    item = leased(acme, host)
    path = f"/allocations/{item['id']}"
    tag = acme.get(path).headers["ETag"]
    again = acme.get(path, HTTP_IF_NONE_MATCH=tag)
    assert (again.status_code, again.content) == (304, b"")


def test_filters_narrow_the_list(acme: Caller, host: Host) -> None:
    leased(acme, host)
    assert len(acme.get("/allocations?state=active").json()["items"]) == 1
    assert acme.get("/allocations?state=released").json()["items"] == []
    assert len(acme.get("/allocations?project=default").json()["items"]) == 1
    assert acme.get("/allocations?project=other").json()["items"] == []
    assert len(acme.get(PATH).json()["items"]) == 1
    assert len(acme.get("/allocations?state=active&state=released").json()["items"]) == 1
    assert len(acme.get("/allocations?created_after=2020-01-01T00:00%2B02:00").json()["items"]) == 1
    assert acme.get("/allocations?created_before=2020-01-01").json()["items"] == []
    assert acme.get("/allocations?q=nothing-like-it").json()["items"] == []
    wrong = acme.get("/allocations?state=sleeping")
    assert wrong.json()["errors"][0] == {
        "pointer": "/state",
        "in": "query",
        "code": "invalid_choice",
        "detail": wrong.json()["errors"][0]["detail"],
    }


def test_a_list_runs_from_the_oldest_as_well_page_by_page(acme: Caller, host: Host) -> None:
    for name in ("one", "two", "three"):
        acme.post(PATH, order_body(slots=1, name=name))
    newest = [item["name"] for item in acme.get("/allocations").json()["items"]]
    assert newest == ["three", "two", "one"]
    oldest, cursor = [], ""
    for _ in newest:
        page = acme.get(f"/allocations?ordering=created_at&limit=1&cursor={cursor}").json()
        oldest += [item["name"] for item in page["items"]]
        cursor = page["next"]
    assert (oldest, cursor) == (newest[::-1], "")
    first = acme.get("/allocations?ordering=created_at&limit=1").json()["next"]
    turned = acme.get(f"/allocations?ordering=-created_at&limit=1&cursor={first}")
    assert turned.json()["code"] == "cursor_invalid"
    assert acme.get("/allocations?ordering=price").status_code == 400


def test_a_project_of_another_tenant_is_as_good_as_missing(world: TenantWorld, host: Host) -> None:
    globex = a_tenant("globex")
    intruder = caller_of(globex)
    theirs = intruder.post(f"/projects/{world.project.pk}/allocations", order_body())
    missing = intruder.post(f"/projects/{globex.tenant.pk}/allocations", order_body())
    assert theirs.status_code == missing.status_code == 404
    assert theirs.json()["detail"] == missing.json()["detail"]


def test_a_release_bound_to_a_version_is_not_done_to_a_later_one(
    acme: Caller, world: TenantWorld, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.order(slots=1).allocation
    assert made is not None
    real = service.allocations_release

    def renamed_first(**given: Any) -> Any:
        seen = Allocation.objects.get(pk=made.pk)
        service.allocation_rename(
            allocation_id=made.pk, name="other", version=seen.version, actor=world.actor
        )
        return real(**given)

    monkeypatch.setattr(service, "allocations_release", renamed_first)
    answer = acme.post(
        f"/allocations/{made.pk}/actions/release",
        {"reason": "done"},
        HTTP_IF_MATCH=f'"{made.version}"',
    )
    assert (answer.status_code, answer.json()["code"]) == (412, "stale_resource_version")
    assert Allocation.objects.get(pk=made.pk).state == "placed"
