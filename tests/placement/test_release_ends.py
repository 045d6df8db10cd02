"""Is the end of an allocation in one statement what it is statement by statement?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from gpuaas.kernel import clock, ids
from gpuaas.kernel.errors import NotFound, TransitionRefused
from placement.models import Claim
from placement.services.cleanup import release_finish
from placement.services.releases import end_moves
from placement.states import ALLOCATION, CLAIM
from tenants.models import QuotaCounter
from tests.builders import (
    BOTH_KINDS,
    OPERATOR,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    state_of,
)
from tests.placement.releasing import brought_to, ended_by_the_book, rows
from tests.placement.test_releases import SHAPES, undone

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    a_parts_catalogue()
    return a_tenant("acme")


@pytest.mark.parametrize("state", ["releasing", "cleanup_blocked"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_end_leaves_the_rows_of_its_statements_one_by_one(
    acme: TenantWorld, state: str, shape: str
) -> None:
    host = a_host(parts=BOTH_KINDS)
    if "h100.1g" in SHAPES[shape]:
        cut_slots(host, "mig", 0)
    if "h100.tenth" in SHAPES[shape]:
        cut_slots(host, "share", 0)
    made = brought_to(state, acme, host, *SHAPES[shape])
    at = clock.db_now() + timedelta(days=1)
    with undone(at):
        ended_by_the_book(made, OPERATOR, "proof complete")
        one_by_one = rows()
    with undone(at):
        row = release_finish(allocation_id=made, actor=OPERATOR, reason="proof complete")
        assert row.state == "released"
        together = rows()
    for table, kept in one_by_one.items():
        assert together[table] == kept, table


@pytest.mark.parametrize("state", ["placed", "active", "preempting"])
def test_what_has_not_been_asked_back_does_not_end(acme: TenantWorld, state: str) -> None:
    made = brought_to(state, acme, a_host(), *SHAPES["three slots"])
    before = rows()
    with pytest.raises(TransitionRefused) as refused, transaction.atomic():
        release_finish(allocation_id=made, actor=OPERATOR)
    assert refused.value.facts == {"state": state, "edge": "finish"}
    assert rows() == before


def test_a_claim_that_has_not_been_asked_back_keeps_its_allocation_from_ending(
    acme: TenantWorld,
) -> None:
    made = brought_to("active", acme, a_host(), *SHAPES["three slots"])
    kept = Claim.objects.filter(allocation_id=made)[0]
    with transaction.atomic():
        brought = kept.allocation
        type(brought).objects.filter(pk=made).update(state="releasing")
    before = rows()
    with pytest.raises(TransitionRefused), transaction.atomic():
        release_finish(allocation_id=made, actor=OPERATOR)
    assert rows() == before


def test_an_end_that_is_repeated_writes_nothing(acme: TenantWorld) -> None:
    made = brought_to("releasing", acme, a_host(), *SHAPES["three slots"])
    for _ in range(2):
        release_finish(allocation_id=made, actor=OPERATOR)
        assert state_of(made) == "released"
        assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0
    before = rows()
    release_finish(allocation_id=made, actor=OPERATOR)
    assert rows() == before
    with pytest.raises(NotFound):
        release_finish(allocation_id=ids.new_id(), actor=OPERATOR)


def test_what_ends_is_what_the_tables_of_lifecycles_say() -> None:
    for name, table in (("allocation", ALLOCATION), ("claim", CLAIM)):
        told = end_moves()[name]
        assert tuple(told["from"]) == table.edges["finish"].sources
        assert told["to"] == table.edges["finish"].target
