"""Are decisions over all tenants kept apart by how they ended, and explained gate by gate?"""

from __future__ import annotations

import pytest

from admission.domain.outcome import OUTCOMES, outcome_of
from admission.models import Decision
from gpuaas.kernel import errors
from gpuaas.kernel.errors import ProductError
from placement.errors import SkuUnavailable
from tests.console.conftest import Fleet

PAGE = "/console/decisions/"


@pytest.fixture
def decided(fleet: Fleet) -> Fleet:
    """Leases that were admitted, one without room, one refused, and one that waits."""
    with pytest.raises(SkuUnavailable):
        fleet.acme.order(slots=8)
    with pytest.raises(ProductError):
        fleet.acme.order(slots=1, tier="none-such")
    with pytest.raises(ProductError):
        fleet.acme.order("h100.node", slots=0, image="none-such")
    fleet.acme.order(slots=8, wait=True)
    return fleet


def ends_on(html: str) -> int:
    """How many decisions the list shows."""
    return html.count('<th scope="row" class="nowrap"><a href="/console/requests/')


def test_each_end_shows_its_own_decisions_and_no_other(decided: Fleet) -> None:
    browser, rows = decided.browser(), list(Decision.objects.values_list("verdict", "code"))
    shown = 0
    for outcome in OUTCOMES:
        expected = sum(outcome_of(verdict, code) == outcome for verdict, code in rows)
        page = browser.get(f"{PAGE}?outcome={outcome}").content.decode()
        assert ends_on(page) == expected
        assert f'<div class="figure">{expected}</div>' in page
        shown += expected
    assert shown == len(rows)
    assert {outcome_of(*row) for row in rows} >= {"admitted", "no_capacity", "denied"}


def test_filters_go_together(decided: Fleet) -> None:
    browser = decided.browser()
    code = "sku_unavailable"
    page = browser.get(f"{PAGE}?tenant=acme&code={code}&action=allocation.create").content.decode()
    assert ends_on(page) == Decision.objects.filter(code=code).count() == 1
    assert f'value="{code}"' in page
    none = browser.get(f"{PAGE}?tenant=nobody").content.decode()
    assert "None passes these filters" in none


@pytest.mark.parametrize("query", ["outcome=nonsense", "action=explode", "days=0", "days=x"])
def test_a_filter_that_there_is_not_is_told_with_those_there_are(
    decided: Fleet, query: str
) -> None:
    answer = decided.browser().get(f"{PAGE}?{query}")
    assert answer.status_code == 400
    assert f"/{query.split('=')[0]}" in answer.content.decode()


def test_a_refusal_shows_its_gates_in_order_its_numbers_and_the_way_out(decided: Fleet) -> None:
    decision = Decision.objects.filter(code="sku_unavailable").latest("created_at")
    page = decided.browser().get(f"/console/requests/{decision.request_id}/").content.decode()
    at = [
        page.index(f"<strong>{gate['gate'].replace('_', ' ')}</strong>") for gate in decision.gates
    ]
    assert at == sorted(at)
    assert "What would unblock it:" in page
    assert errors.catalogue()["sku_unavailable"].title in page
    assert "no capacity" in page
