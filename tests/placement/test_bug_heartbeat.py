"""Do a heartbeat and a release of the same task lock in the same order?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from nodeagent.protocol.messages import HeartbeatRequest
from placement.services import tasks
from tests.builders import a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_heartbeat_locks_the_node_before_its_task() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host("host-1")
    acme.order(slots=1)
    (task,) = host.lease()
    beat = HeartbeatRequest(lease_epoch=task.lease_epoch, step="boot", percent=10)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        tasks.task_heartbeat(node=host.fresh(), task_id=task.pk, message=beat)
    order = [
        "node" if q["sql"].startswith('UPDATE "placement_node"') else "task"
        for q in seen.captured_queries
        if q["sql"].startswith('UPDATE "placement_node"') or "FOR NO KEY UPDATE" in q["sql"]
    ]
    assert order[:2] == ["node", "task"]
