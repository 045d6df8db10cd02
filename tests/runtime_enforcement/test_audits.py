"""Is a late thing found by the audit when the sweep has not said so?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuaas.kernel import clock
from placement.models import Allocation
from runtime_enforcement.audits import overdue
from runtime_enforcement.services import overdue_sweep
from tests.builders import a_catalogue, a_host, a_tenant


@pytest.mark.django_db
def test_what_is_late_is_a_finding_until_it_has_been_said() -> None:
    a_catalogue()
    acme = a_tenant()
    a_host()
    acme.order(slots=1)
    assert overdue() == []
    Allocation.objects.update(state_since=clock.db_now() - timedelta(minutes=16))
    assert overdue() == []
    Allocation.objects.update(state_since=clock.db_now() - timedelta(hours=1))
    [finding] = overdue()
    assert finding.code == "overdue_not_said"
    assert finding.subject == f"placement.allocation {Allocation.objects.get().pk}"
    overdue_sweep()
    assert overdue() == []
