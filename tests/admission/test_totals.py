"""Are decisions counted once, whenever the count is made, at a cost that does not grow?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from admission.models import Decision, DecisionsCounted, DecisionTotal
from admission.totals import SETTLED, decision_totals, decisions_count_sweep
from gpuaas.kernel import clock
from gpuaas.kernel.errors import ProductError
from tests.builders import a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db

ADMITTED = ("allocation.create", "admit", "admitted")
REFUSED = ("allocation.create", "deny", "sku_unavailable")


def some_decisions() -> None:
    """One admitted, and one refused for want of room."""
    a_catalogue()
    a_host()
    acme = a_tenant("acme")
    acme.order(slots=8)
    with pytest.raises(ProductError):
        acme.order(slots=1)


def aged(by: timedelta) -> None:
    for row in Decision.objects.all():
        Decision.objects.filter(pk=row.pk).update(created_at=row.created_at - by)


def test_without_any_decision_nothing_is_counted() -> None:
    assert decision_totals() == {}
    assert decisions_count_sweep() == 0


def test_a_decision_is_counted_once_before_and_after_it_is_in_the_totals() -> None:
    some_decisions()
    before = decision_totals()
    assert sum(before.values()) == 2
    assert before[REFUSED] == 1
    assert decisions_count_sweep() == 0
    assert decision_totals() == before
    aged(SETTLED + timedelta(seconds=1))
    DecisionsCounted.objects.all().delete()
    assert decisions_count_sweep() == 2
    assert decisions_count_sweep() == 0
    assert decision_totals() == before
    assert sum(DecisionTotal.objects.values_list("count", flat=True)) == 2


def test_what_is_removed_stays_counted() -> None:
    some_decisions()
    before = decision_totals()
    aged(SETTLED * 2)
    decisions_count_sweep()
    Decision.objects.all().delete()
    assert decision_totals() == before


def test_later_decisions_add_to_the_totals() -> None:
    some_decisions()
    aged(SETTLED * 2)
    assert decisions_count_sweep() == 2
    with pytest.raises(ProductError):
        a_tenant("globex").order(slots=1)
    assert decision_totals()[REFUSED] == 2


def test_the_moment_up_to_which_is_counted_never_goes_back() -> None:
    some_decisions()
    later = clock.db_now() + timedelta(days=1)
    DecisionsCounted.objects.create(until=later)
    assert decisions_count_sweep() == 0
    assert DecisionsCounted.objects.get().until == later


def test_counting_takes_as_many_statements_however_many_decisions_there_are() -> None:
    some_decisions()
    aged(SETTLED * 2)
    decisions_count_sweep()
    with CaptureQueriesContext(connection) as seen:
        decision_totals()
    assert len(seen) == 2


def test_a_long_history_is_caught_up_with_day_by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    some_decisions()
    aged(timedelta(days=10))
    before = decision_totals()
    monkeypatch.setattr("admission.totals.STEPS", 3)
    assert decisions_count_sweep() == 2
    for _ in range(3):
        assert DecisionsCounted.objects.get().until < clock.db_now() - SETTLED
        decisions_count_sweep()
        assert decision_totals() == before
    assert decisions_count_sweep() == 0
    assert DecisionsCounted.objects.get().until > clock.db_now() - 2 * SETTLED
