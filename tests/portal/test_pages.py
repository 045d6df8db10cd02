"""Does every page of the portal answer each role as it should, and nobody else?"""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import ids
from placement.models import Allocation
from tests.builders import drive_all
from tests.portal.conftest import Browser, World

PAGES = {
    # page: the roles that read it
    "": "owner admin member viewer billing",
    "catalogue/": "owner admin member viewer billing",
    "launch/": "owner admin member viewer billing",
    "launch/?sku=h100.slice&slots=2": "owner admin member viewer billing",
    "allocations/": "owner admin member viewer",
    "allocations/?state=live&project=default": "owner admin member viewer",
    "allocations.csv": "owner admin member viewer",
    "allocations/{running}/": "owner admin member viewer",
    "requests/": "owner admin member viewer",
    "requests/{request}/": "owner admin member viewer",
    "quota/": "owner admin member viewer billing",
    "decisions/": "owner admin member viewer",
    "decisions/?outcome=admitted&action=job.submit": "owner admin member viewer",
    "workloads/": "owner admin member viewer",
    "workloads/new/": "owner admin member viewer",
    "workloads/new/?sku=h100.slice&slots=2&name=x": "owner admin member viewer",
    "datasets/": "owner admin member viewer",
    "team/projects/default/": "owner admin member viewer billing",
    "tenant/": "owner admin member viewer billing",
    "team/": "owner admin member viewer billing",
    "tokens/": "owner admin member viewer billing",
    "ssh-keys/": "owner admin member viewer",
    "search/?q=zzz": "owner admin member viewer billing",
}


def filled(world: World, path: str) -> str:
    """The address with its ids filled in."""
    return world.url(path.format(running=world.running.pk, request=world.running.request_id))


@pytest.mark.parametrize("path", PAGES)
def test_each_role_sees_what_it_may_and_is_told_otherwise(world: World, path: str) -> None:
    for role in world.people:
        answer = world.browser(role).get(filled(world, path))
        expected = 200 if role in PAGES[path].split() else 403
        assert (role, answer.status_code) == (role, expected)
        if expected == 403:
            assert "permission_denied" in answer.content.decode()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_no_style_and_no_foreign_address(
    world: World, path: str
) -> None:
    if path.endswith(".csv"):
        pytest.skip("not a page")
    answer = world.browser().get(filled(world, path))
    html = answer.content.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert not re.search(r"\sstyle\s*=|<style|\son[a-z]+\s*=|javascript:", html)
    outside = re.findall(r'(?:src|href|action)="((?:https?:)?//[^"]*)"', html)
    assert outside == []
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_and_a_signed_out_reader_learn_nothing(world: World, path: str) -> None:
    address = filled(world, path)
    stranger = Browser.of(world.globex.owner).get(address)
    missing = Browser.of(world.globex.owner).get(world.url(tenant="no-such-tenant"))
    assert stranger.status_code == missing.status_code == 404
    signed_out = Client().get(address)
    assert signed_out.status_code == 302
    assert signed_out.headers["Location"].startswith("/sign-in/?next=/t/acme/")


@pytest.mark.parametrize("path", ["allocations/{}/", "requests/{}/"])
def test_a_foreign_object_answers_exactly_as_a_missing_one(world: World, path: str) -> None:
    browser = world.browser()
    foreign = {"allocations": world.foreign.pk, "requests": world.foreign.request_id}
    one = browser.get(world.url(path.format(foreign[path.split("/")[0]])))
    other = browser.get(world.url(path.format(ids.new_id())))
    assert one.status_code == other.status_code == 404

    def without_ids(html: str) -> str:
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|value=\"[A-Za-z0-9]{64}\"", "", html)

    assert without_ids(one.content.decode()) == without_ids(other.content.decode())


@pytest.mark.parametrize(
    "path",
    [
        "launch/",
        "allocations/{running}/release/",
        "team/projects/",
        "tokens/",
        "ssh-keys/",
    ],
)
def test_a_form_without_its_token_changes_nothing(world: World, path: str) -> None:
    browser = world.browser()
    answer = browser.post(filled(world, path), {"name": "x", "public_key": "x"})
    assert answer.status_code == 403
    assert "The form is too old" in answer.content.decode()
    world.running.refresh_from_db()
    assert world.running.state == "active"


@pytest.mark.parametrize(
    "path",
    ["allocations/?state=nonsense", "allocations/?cursor=zzz", "requests/?state=nonsense"],
)
def test_a_filter_that_does_not_exist_is_told(world: World, path: str) -> None:
    answer = world.browser().get(world.url(path))
    assert answer.status_code == 400
    assert "invalid_request" in answer.content.decode()


def test_a_pending_tenant_is_told_what_it_waits_for(world: World) -> None:
    type(world.acme.tenant).objects.filter(pk=world.acme.tenant.pk)
    other = Browser()
    answer = other.send(
        "/sign-up/",
        {
            "tenant_name": "Initech",
            "email": "boss@initech.test",
            "full_name": "The Boss",
            "password": "a long sentence helps",
        },
        follow=True,
    )
    html = answer.content.decode()
    assert "waits for approval" in html
    assert "tenant_pending" in html


def test_the_list_of_200_allocations_is_small_and_asks_little(world: World) -> None:
    template = world.running
    rows = []
    for n in range(200):
        row = Allocation.objects.get(pk=template.pk)
        request = row.request
        request.pk = ids.new_id()
        request._state.adding = True
        request.save()
        row.pk, row.name, row.request, row.state = ids.new_id(), f"job-{n}", request, "released"
        rows.append(row)
    Allocation.objects.bulk_create(rows)
    browser = world.browser()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = browser.get(world.url("allocations/?limit=200"))
    assert answer.content.count(b"/allocations/0") >= 200
    assert len(answer.content) <= 300_000
    assert len(queries) <= 40


def test_pages_of_a_list_follow_each_other_without_gap_or_repeat(world: World) -> None:
    for n in range(4):
        world.acme.order(slots=1, name=f"job-{n}")
    browser = world.browser()
    seen: list[str] = []
    address = world.url("allocations/?limit=2")
    for _ in range(3):
        html = browser.get(address).content.decode()
        seen += re.findall(r'/allocations/[0-9a-f-]{36}/">([^<]+)<', html)
        older = re.search(r'href="(\?[^"]*cursor=[^"]+)">Older', html)
        if older is None:
            break
        address = world.url("allocations/") + older.group(1).replace("&amp;", "&")
    assert seen == ["job-3", "job-2", "job-1", "job-0", "train-1"]


def test_a_table_program_cannot_be_tricked_by_a_name(world: World) -> None:
    Allocation.objects.filter(pk=world.running.pk).update(name="=cmd()")
    answer = world.browser().get(world.url("allocations.csv"))
    lines = answer.content.decode().splitlines()
    assert len(lines) == 2
    assert ",'=cmd()," in lines[1]


def test_a_tenant_never_reads_the_name_of_a_host(world: World) -> None:
    name = world.host.node.name
    assert name == "host-1"
    drive_all()
    for path in PAGES:
        html = world.browser().get(filled(world, path)).content.decode()
        assert name not in html, path


def test_search_goes_to_the_only_hit_and_finds_reason_codes(world: World) -> None:
    browser = world.browser()
    one = browser.get(world.url("search/?q=train-1"))
    assert one.headers["Location"] == world.url(f"allocations/{world.running.pk}/")
    code = browser.get(world.url("search/?q=envelope_exceeded"))
    assert code.headers["Location"] == "/docs/reasons/envelope_exceeded"
    foreign = browser.get(world.url(f"search/?q={world.foreign.pk}"))
    assert "Nothing found" in foreign.content.decode()
