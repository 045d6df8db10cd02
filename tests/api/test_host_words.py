"""Do a host's own words about a failure stay with the operators, whatever a tenant looks at?"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.urls import reverse

from gpuaas.kernel import told
from gpuaas.kernel.models import Event
from placement.models import Allocation, CleanupProof
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from tests.api.client import Caller, an_operator, caller_of, operator_caller
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant, drive_all
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db

WORDS = "secret-hostname /dev/nvme0 10.0.0.7"
MADE_UP = "secret_code_of_a_host"
SECRETS = ("secret-hostname", "/dev/nvme0", "10.0.0.7", MADE_UP)


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host()


def not_provisioned(acme: TenantWorld, host: Host) -> Allocation:
    """The host could not make it."""
    made = acme.order(slots=2, name="train-1").allocation
    assert made is not None
    [task] = host.lease()
    host.fail(task, code=MADE_UP, detail=WORDS)
    drive_all()
    return Allocation.objects.get(pk=made.pk)


def tried_again(acme: TenantWorld, host: Host) -> Allocation:
    """The host failed once, and is going to try again."""
    made = acme.order(slots=2, name="train-1").allocation
    assert made is not None
    [task] = host.lease()
    host.fail(task, code=MADE_UP, detail=WORDS, retryable=True)
    drive_all()
    return Allocation.objects.get(pk=made.pk)


def not_cleaned(acme: TenantWorld, host: Host) -> Allocation:
    """The host could not clean up what the tenant gave back."""
    made = acme.order(slots=2, name="train-1").allocation
    assert made is not None
    host.work()
    allocation_release(allocation_id=made.pk, reason="done with it", actor=acme.actor)
    [task] = host.lease()
    host.fail(task, code=MADE_UP, detail=WORDS)
    drive_all()
    row = Allocation.objects.get(pk=made.pk)
    assert row.state == "cleanup_blocked"
    return row


def cleaned_at_last(acme: TenantWorld, host: Host) -> Allocation:
    """The cleanup was blocked, and the second try proved it."""
    row = not_cleaned(acme, host)
    cleanup_retry(allocation_id=row.pk, reason="repaired", actor=OPERATOR)
    host.work()
    row.refresh_from_db()
    assert (row.state, WORDS in row.outcome_detail) == ("released", True)
    return row


STORIES = [not_provisioned, tried_again, not_cleaned, cleaned_at_last]
Story = Callable[[TenantWorld, Host], Allocation]


def everything(caller: Caller, row: Allocation) -> dict[str, str]:
    """Whatever the API tells of an allocation, by address."""
    one = f"/allocations/{row.pk}"
    asked = f"/admission-requests/{row.request_id}"
    paths = [
        "/allocations",
        one,
        f"{one}/explain",
        f"{one}/timeline",
        asked,
        f"{asked}/explain",
        "/operations",
        f"/operations/{row.run_id}",
        "/events?limit=500",
        "/notices",
    ]
    found = {}
    for path in paths:
        answer = caller.get(path)
        assert answer.status_code == 200, (path, answer.json())
        found[path] = json.dumps(answer.json(), ensure_ascii=False)
    return found


def told_in(pages: dict[str, str]) -> list[tuple[str, str]]:
    return [(path, word) for path, text in pages.items() for word in SECRETS if word in text]


@pytest.mark.parametrize("story", STORIES)
def test_a_tenant_is_told_the_code_and_what_helps_and_never_the_host_s_words(
    acme: TenantWorld, host: Host, story: Story
) -> None:
    row = story(acme, host)
    assert told_in(everything(caller_of(acme), row)) == []


@pytest.mark.parametrize("story", STORIES)
def test_no_page_of_the_portal_shows_them(acme: TenantWorld, host: Host, story: Story) -> None:
    row = story(acme, host)
    browser, pages = Browser.of(acme.owner), {}
    for name, rest in (("allocation", [row.pk]), ("request", [row.request_id])):
        address = reverse(f"portal:{name}", args=["acme", *rest])
        pages[address] = browser.get(address).content.decode()
        assert "train-1" in pages[address] or name == "request"
    for name in ("home", "allocations", "allocations-csv", "requests", "notices", "decisions"):
        address = reverse(f"portal:{name}", args=["acme"])
        answer = browser.get(address)
        assert answer.status_code == 200
        pages[address] = answer.content.decode()
    assert told_in(pages) == []


@pytest.mark.parametrize("story", [not_provisioned, not_cleaned])
def test_an_operator_reads_the_host_s_words_over_the_api_and_on_the_console(
    acme: TenantWorld, host: Host, story: Story
) -> None:
    row = story(acme, host)
    pages = everything(operator_caller(), row)
    one = f"/allocations/{row.pk}"
    for path in (one, f"{one}/explain", f"{one}/timeline"):
        assert WORDS in pages[path], path
    assert WORDS in pages["/operations"]
    browser = Browser.of(an_operator("second@platform.test"))
    page = browser.get(reverse("console:allocation", args=[row.pk])).content.decode()
    assert WORDS in page


def test_what_a_tenant_reads_instead_is_the_code_s_title_and_way_out(
    acme: TenantWorld, host: Host
) -> None:
    row = not_provisioned(acme, host)
    caller = caller_of(acme)
    shown = caller.get(f"/allocations/{row.pk}").json()
    assert shown["outcome_code"] == "provision_failed"
    assert shown["outcome_detail"] == told.meaning("provision_failed")
    assert shown["outcome_detail"].startswith("The host could not provision the allocation. Ask")
    assert caller.get(f"/allocations/{row.pk}/explain").json()["allocation"]["detail"] == (
        told.meaning("provision_failed")
    )
    [run] = [r for r in caller.get("/operations").json()["items"] if r["error"]]
    assert (run["error"]["code"], run["error"]["facts"]) == ("provision_failed", {})
    assert run["error"]["detail"] == told.meaning("provision_failed")


def test_what_the_host_said_of_a_missing_step_is_for_operators(
    acme: TenantWorld, host: Host
) -> None:
    row = not_cleaned(acme, host)
    proof = CleanupProof.objects.filter(claim__allocation=row).first()
    assert proof is not None
    missing = [{"slot_index": 0, "step": "disk_wiped", "why": "failed", "detail": WORDS}]
    CleanupProof.objects.filter(pk=proof.pk).update(missing=missing)
    path = f"/allocations/{row.pk}/timeline"
    assert WORDS not in caller_of(acme).get(path).content.decode()
    assert "disk_wiped" in caller_of(acme, name="again").get(path).content.decode()
    assert WORDS in operator_caller().get(path).content.decode()


def test_the_record_keeps_what_the_host_said(acme: TenantWorld, host: Host) -> None:
    not_provisioned(acme, host)
    kept = Event.objects.filter(facts__detail=WORDS)
    assert kept.count() == 1


@pytest.mark.parametrize(
    ("code", "tenant"),
    [
        ("provision_failed", told.meaning("provision_failed")),
        ("cleanup_blocked", told.meaning("cleanup_blocked")),
        (MADE_UP, ""),
        ("sku_unavailable", WORDS),
        ("", WORDS),
    ],
)
def test_only_words_that_are_ours_pass_to_a_tenant(code: str, tenant: str) -> None:
    assert told.detail_told(code, WORDS, operator=False) == tenant
    assert told.detail_told(code, WORDS, operator=True) == WORDS


def test_an_outcome_is_told_by_its_code_alone() -> None:
    for code in ("preempted", "", MADE_UP):
        found = told.outcome_told(code, WORDS, blocked=False, operator=False)
        assert WORDS not in found
        blocked = told.outcome_told(code, WORDS, blocked=True, operator=False)
        assert blocked == told.meaning("cleanup_blocked")
    assert told.outcome_told("", WORDS, blocked=True, operator=True) == WORDS


def test_a_step_that_failed_or_could_not_be_undone_keeps_its_last_words() -> None:
    failed = {"name": "s", "state": "failed", "detail": WORDS, "error": {"code": MADE_UP}}
    undone = {"name": "s", "state": "done", "undo": "failed", "detail": WORDS}
    waits = {"name": "s", "state": "running", "detail": "host: booting"}
    assert told.step_told(failed, operator=False)["detail"] == ""
    assert told.step_told(undone, operator=False)["detail"] == ""
    assert told.step_told(waits, operator=False)["detail"] == "host: booting"
    assert told.step_told(failed, operator=True) == failed
