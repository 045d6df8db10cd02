"""Does an operator see for how long rows are kept, and change it with a reason?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.models import Event, RetentionRule
from tenants.models import User
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

PAGE = "/console/retention/"


def test_every_kind_is_listed_with_its_days(fleet: Fleet) -> None:
    html = fleet.browser().get(PAGE).content.decode()
    for name in ("drift", "notices", "maintenance_windows"):
        assert f"<code>{name}</code>" in html
    assert "default" in html


def test_other_days_are_kept_with_the_reason(fleet: Fleet) -> None:
    browser = fleet.browser()
    answer = browser.send(PAGE, {"name": "drift", "days": "180", "reason": "audits"})
    assert (answer.status_code, answer.headers["Location"]) == (302, PAGE)
    assert RetentionRule.objects.get(name="drift").days == 180
    event = Event.objects.get(kind="kernel.retentionrule.set")
    assert (event.reason, event.after) == ("audits", {"name": "drift", "days": 180})
    assert "an operator" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize(
    "wrong",
    [{"days": "3"}, {"days": "90000"}, {"days": "many"}, {"name": "nothing"}, {"reason": " "}],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(fleet: Fleet, wrong: dict[str, str]) -> None:
    given = {"name": "drift", "days": "180", "reason": "audits", **wrong}
    answer = fleet.browser().send(PAGE, given)
    assert answer.status_code == 400
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not RetentionRule.objects.exists()


def test_whoever_only_reads_changes_nothing(fleet: Fleet) -> None:
    viewer = Browser.of(
        User.objects.create_user("reads@platform.test", is_staff=True, operator_role="viewer")
    )
    assert "Keep them so" not in viewer.get(PAGE).content.decode()
    answer = viewer.send(PAGE, {"name": "drift", "days": "180", "reason": "audits"})
    assert answer.status_code == 403
    assert not RetentionRule.objects.exists()


def test_nodes_are_listed_page_by_page(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuaas.console.views.nodes.NODES_SHOWN", 1)
    first = fleet.browser().get("/console/nodes/").content.decode()
    assert 'href="/console/nodes/host-1/"' in first
    assert 'href="/console/nodes/host-2/"' not in first
    second = fleet.browser().get("/console/nodes/?cursor=host-1").content.decode()
    assert 'href="/console/nodes/host-2/"' in second
    assert "More nodes" in first
    assert "More nodes" not in second
