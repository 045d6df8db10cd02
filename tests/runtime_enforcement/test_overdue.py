"""Is a thing that stays too long in a state said to be late, once?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps

from gpuaas.kernel import clock
from gpuaas.kernel.lifecycle import registered
from gpuaas.kernel.models import Event
from placement.models import Allocation
from runtime_enforcement.domain.overdue import EXPECTED_S, overdue
from runtime_enforcement.services import KIND, overdue_sweep
from tests.builders import a_catalogue, a_host, a_tenant

NOW = clock.now()


def test_within_its_time_nothing_is_late() -> None:
    assert overdue("placement.allocation", "placed", NOW - timedelta(minutes=15), NOW) is None


def test_after_its_time_it_says_by_how_much() -> None:
    found = overdue("placement.allocation", "placed", NOW - timedelta(minutes=20), NOW)
    assert found is not None
    assert (found.limit_s, found.late_s) == (900, 300)


def test_a_state_that_may_last_is_never_late() -> None:
    assert overdue("placement.allocation", "active", NOW - timedelta(days=900), NOW) is None


def test_every_expected_time_names_a_real_state_that_is_not_final() -> None:
    known = registered()
    for noun, state in EXPECTED_S:
        assert state in known[noun].states.values
        assert state not in known[noun].final
        assert apps.get_model(noun)


@pytest.mark.django_db
def test_a_stuck_allocation_is_said_once() -> None:
    a_catalogue()
    acme = a_tenant()
    a_host()
    acme.order(slots=1)
    Allocation.objects.update(state_since=clock.db_now() - timedelta(hours=1))
    assert overdue_sweep() == 1
    assert overdue_sweep() == 0
    event = Event.objects.get(kind=KIND)
    assert event.reason == "state_overdue"
    assert event.facts["state"] == "placed"
    assert event.tenant_id == acme.tenant.pk
