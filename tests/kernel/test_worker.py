"""Does a real worker do the kernel's work, with and without its broker?"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from django.db import connection

from gpuaas.embedded.processes import free_port
from gpuaas.kernel import events
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import EventSeal, Lease
from tests.kernel.processes import process

pytestmark = pytest.mark.django_db(transaction=True)


def sealed_within(seconds: float, count: int) -> bool:
    end = time.monotonic() + seconds
    while EventSeal.objects.count() < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


WORKER = ("-m", "celery", "-A", "gpuaas.celery", "worker", "-P", "threads", "-c", "2")


def test_a_worker_without_a_broker_still_ticks(tmp_path: Path) -> None:
    dead = f"redis://127.0.0.1:{free_port()}/0"
    log = tmp_path / "worker.log"
    with process(*WORKER, log=log, REDIS_URL=dead):
        events.record(kind="kernel.test.happened", actor=SYSTEM)
        assert sealed_within(40, 1), log.read_text()


def test_two_tickers_share_the_turns_and_outlive_a_lost_connection(tmp_path: Path) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    with (
        process("manage.py", "beat", log=logs[0]),
        process("manage.py", "beat", log=logs[1]),
    ):
        events.record(kind="kernel.test.happened", actor=SYSTEM)
        assert sealed_within(40, 1), logs[0].read_text()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        before = Lease.objects.get(name="seals").epoch
        events.record(kind="kernel.test.happened", actor=SYSTEM)
        assert sealed_within(40, 2), logs[0].read_text()
        assert Lease.objects.get(name="seals").epoch > before
    assert all("Traceback" not in log.read_text() for log in logs)
