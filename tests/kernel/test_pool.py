"""Is the pool usable at once after PostgreSQL ended its connections?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, connections

from gpuaas.kernel.postgres.base import answers

pytestmark = pytest.mark.django_db(transaction=True)
IDLE = 8


def fill_the_pool() -> None:
    """Leave so many idle connections in the pool."""
    ready = threading.Barrier(IDLE)

    def work(_: int) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            ready.wait(10)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(IDLE) as threads:
        list(threads.map(work, range(IDLE)))


def end_all_others() -> int:
    """End every connection but this one, as a restart does; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        (ended,) = cursor.fetchone()
    return int(ended)


def test_many_dead_connections_are_replaced_before_the_next_query() -> None:
    connection.ensure_connection()
    fill_the_pool()
    assert end_all_others() >= IDLE
    connections.close_all()
    ready = threading.Barrier(IDLE)

    def work(_: int) -> int:
        try:
            ready.wait(10)
            with connection.cursor() as cursor:
                cursor.execute("SELECT 7")
                return int(cursor.fetchone()[0])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(IDLE) as threads:
        assert list(threads.map(work, range(IDLE))) == [7] * IDLE


def test_a_connection_with_a_notice_to_read_is_kept() -> None:
    connection.ensure_connection()
    idle = connection.connection
    with connection.cursor() as cursor:
        cursor.execute("LISTEN something")
    listener_pid = idle.info.backend_pid
    other = psycopg_connection()
    try:
        other.execute("NOTIFY something")
    finally:
        other.close()
    assert answers(idle)
    with connection.cursor() as cursor:
        cursor.execute("UNLISTEN *")
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() == (listener_pid,)


def test_a_connection_that_the_server_ended_does_not_answer() -> None:
    other = psycopg_connection()
    try:
        assert answers(other)
        assert end_all_others() >= 1
        assert not answers(other)
        assert not answers(other)
    finally:
        other.close()


def psycopg_connection() -> psycopg.Connection[tuple[int]]:
    """A connection to the test database beside the pool."""
    connection.ensure_connection()
    info = connection.connection.info
    return psycopg.connect(
        host=info.host,
        port=info.port,
        user=info.user,
        password=info.password,
        dbname=info.dbname,
        autocommit=True,
    )
