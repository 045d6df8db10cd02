"""Does the console show what a window or a drain touches before it is ordered?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuaas.kernel import clock
from placement.models import CardReplacement, MaintenanceWindow, NodeDrain
from tenants.models import User
from tests.builders import a_catalogue, a_host, a_tenant
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Browser:
    a_catalogue()
    a_host("n1")
    a_tenant("acme").order(slots=2, name="train-1")
    operator = User.objects.create_user(
        "op@example.test", "x", is_staff=True, operator_role="administrator"
    )
    return Browser.of(operator)


def form(**more: str) -> dict[str, str]:
    now = clock.now()
    return {
        "nodes": "n1",
        "starts_at": (now + timedelta(days=2)).isoformat(),
        "ends_at": (now + timedelta(days=2, hours=4)).isoformat(),
        "announce": "on",
        "reason": "new firmware",
        **more,
    }


def test_a_window_is_looked_at_and_then_planned_and_cancelled(browser: Browser) -> None:
    sent = form()
    first = browser.send("/console/maintenance/", sent)
    assert first.status_code == 200
    text = first.content.decode()
    assert "train-1" in text
    assert "acme" in text
    assert MaintenanceWindow.objects.count() == 0
    digest = first.context["form"].data["seen"]  # type: ignore[attr-defined]  # the test client's
    done = browser.send("/console/maintenance/", {**sent, "seen": digest})
    assert done.status_code == 302
    window = MaintenanceWindow.objects.get()
    assert window.state == "announced"
    page = browser.get("/console/maintenance/").content.decode()
    assert 'class="calendar"' in page
    assert "new firmware" in browser.get("/console/nodes/n1/").content.decode()
    browser.send(f"/console/maintenance/{window.pk}/cancel/", {"reason": "postponed"})
    window.refresh_from_db()
    assert window.state == "cancelled"


def test_a_wrong_window_says_so_beside_its_field(browser: Browser) -> None:
    answer = browser.send("/console/maintenance/", form(nodes="nowhere"))
    assert answer.status_code == 400
    assert "no node nowhere" in answer.content.decode()


def test_the_drain_form_says_what_becomes_of_everything_there(browser: Browser) -> None:
    page = browser.get("/console/nodes/n1/").content.decode()
    assert "1 allocation there: 1 staying until released by its tenant." in page
    plan = browser.get("/console/nodes/n1/drain-plan/").content.decode()
    assert "train-1" in plan
    assert "sku_unavailable" in plan
    browser.send("/console/nodes/n1/drain/", {"reason": "fan"})
    assert NodeDrain.objects.filter(ended_at__isnull=True).count() == 1
    moved = browser.send("/console/nodes/n1/drain-plan/", {"reason": "fan"})
    assert moved.status_code == 302


def test_a_replaced_card_is_declared_on_the_nodes_page(browser: Browser) -> None:
    browser.send("/console/nodes/n1/card/", {"slot": "7", "do": "replace", "reason": "XID 79"})
    assert CardReplacement.objects.get().state == "declared"
    assert "not discovered yet" in browser.get("/console/nodes/n1/").content.decode()
    browser.send("/console/nodes/n1/card/", {"slot": "7", "do": "cancel", "reason": "reseated"})
    assert CardReplacement.objects.get().state == "cancelled"
