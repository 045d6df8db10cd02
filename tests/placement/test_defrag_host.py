"""Does a run of moves go on for a host that takes no new work any more?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placement.models import Defragmentation, Node
from placement.services.defrag import defrag_plan
from placement.services.nodes import node_drain, node_quarantine
from tests.builders import OPERATOR, drive_all
from tests.placement.test_defrag import Spread, allowed
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("close", [node_drain, node_quarantine])
def test_nobody_is_moved_for_room_on_a_host_that_has_been_closed_meanwhile(
    close: Callable[..., Any],
) -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    row = Defragmentation.objects.get()
    assert row.host.name == "host-1"
    close(node_id=row.host_id, reason="smoke", actor=OPERATOR)
    drive_all()
    run.refresh_from_db()
    assert (run.state, (run.error or {})["code"]) == ("failed", "defrag_plan_stale")
    assert "host-1, where room is made," in (run.error or {})["detail"]
    place.settle()
    assert place.where("web") == ["host-1"]
    row.refresh_from_db()
    assert (row.outcome, row.moves[0]["state"]) == ("stopped", "planned")
    assert not Node.objects.get(name="host-1").schedulable
    assert findings() == []
