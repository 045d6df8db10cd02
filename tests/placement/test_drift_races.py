"""When two workers look at the same hosts at once, does neither wait for the other in a circle?"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection, connections, transaction

from gpuaas.kernel import clock, ids
from placement.models import Drift
from placement.services.drift import _seen_again
from tests.builders import a_catalogue, a_host

ROWS = 12


@pytest.mark.django_db(transaction=True)
def test_two_looks_that_find_their_rows_in_other_orders_count_them_one_after_the_other() -> None:
    a_catalogue()
    node, now = a_host().node, clock.db_now()
    keys = sorted(ids.new_id() for _ in range(ROWS))
    # On disk they lie the other way round: a scan of the table meets the last one first.
    for key in reversed(keys):
        Drift.objects.create(
            id=key,
            node=node,
            kind="vm_unknown",
            subject=str(key),
            severity="low",
            actor="operator",
            detail="x",
            last_seen_at=now,
        )
    waiting = threading.Barrier(3)
    broke: list[BaseException] = []

    def look(plan: str) -> None:
        try:
            # For this transaction only: the connection goes back to the pool, to whoever is next.
            with transaction.atomic(), connection.cursor() as cursor:
                for way in (plan, "enable_bitmapscan"):
                    cursor.execute(f"SET LOCAL {way} = off")
                waiting.wait()
                _seen_again(keys, now)
        except BaseException as error:
            broke.append(error)
        finally:
            connections.close_all()

    # Either plan is one that the database may choose: through the table, or through its key.
    looks = [
        threading.Thread(target=look, args=[plan])
        for plan in ("enable_seqscan", "enable_indexscan")
    ]
    for one in looks:
        one.start()
    with transaction.atomic():
        Drift.objects.select_for_update().get(pk=keys[ROWS // 2])
        waiting.wait()
        until = clock.monotonic() + 20
        while _waiting() < 2 and clock.monotonic() < until:
            time.sleep(0.01)
        assert _waiting() == 2
    for one in looks:
        one.join()
    assert broke == []
    assert set(Drift.objects.values_list("seen", flat=True)) == {3}


def _waiting() -> Any:
    with connection.cursor() as cursor:
        # Of this database only: another one's tests may wait for something at the same moment.
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]
