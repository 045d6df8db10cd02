"""Is each corruption of what was agreed or counted found by its audit?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import F

from tenants.models import CohortCounter, ProjectQuota, QuotaCounter
from tenants.services import cohorts
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db

# The column that somebody writes past the services, and the codes that must say so.
CORRUPTIONS = {
    "a limit": (QuotaCounter, "limit_milli", {"limit_differs"}),
    "a borrowing limit": (QuotaCounter, "borrow_milli", {"terms_differ"}),
    "a guarantee": (QuotaCounter, "guaranteed_milli", {"terms_differ", "cohort_wrong"}),
    "a tenant's use": (QuotaCounter, "used_milli", {"projects_differ", "counter_wrong"}),
    "an excess": (QuotaCounter, "grandfathered_milli", {"over_the_limit"}),
    "a cohort's quota": (CohortCounter, "quota_milli", {"cohort_wrong"}),
    "a cohort's use": (CohortCounter, "used_milli", {"cohort_wrong"}),
    "a cohort's excess": (CohortCounter, "grandfathered_milli", {"cohort_wrong"}),
    "a project's use": (ProjectQuota, "used_milli", {"projects_differ", "project_counter_wrong"}),
    "a project's excess": (ProjectQuota, "grandfathered_milli", {"project_wrong"}),
}


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_what_is_written_past_the_services_is_found(what: str) -> None:
    a_catalogue()
    a_host()
    acme = a_tenant(envelope_slots=4)
    acme.order(slots=2)
    cohorts.cohort_create(name="all", actor=OPERATOR)
    cohorts.tenant_cohort_set(tenant_id=acme.tenant.pk, cohort="all", reason="", actor=OPERATOR)
    assert findings() == []
    model, column, codes = CORRUPTIONS[what]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    model._default_manager.update(**{column: F(column) + 7})
    assert codes <= {finding.code for finding in findings()}
