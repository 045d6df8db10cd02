"""Does a prepared statement answer like any other?"""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from gpuaas.kernel import prepared

pytestmark = pytest.mark.django_db(transaction=True)


def test_named_values_may_be_used_twice_and_in_any_order() -> None:
    sql = "SELECT %(b)s::text, %(a)s::int + 1, %(b)s::text"
    assert prepared.rows(sql, {"a": 1, "b": "x"}) == [("x", 2, "x")]
    assert prepared.rows(sql, {"a": 2, "b": "y"}) == [("y", 3, "y")]


def test_plain_values_come_in_order_and_a_percent_sign_is_itself() -> None:
    assert prepared.rows("SELECT %s::int, %s::text, 7 %% 4", [1, "a%b"]) == [(1, "a%b", 3)]


def test_a_statement_is_prepared_once_per_connection() -> None:
    sql = "SELECT %s::int AS prepared_once"
    for value in range(3):
        prepared.rows(sql, [value])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s",
            ["%prepared_once%"],
        )
        assert cursor.fetchone() == (1,)


def named(word: str) -> list[str]:
    """The names under which statements with this word are prepared here."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE %s "
            "AND statement NOT LIKE '%%pg_prepared%%' ORDER BY name",
            [f"%{word}%"],
        )
        return [name for (name,) in cursor.fetchall()]


def test_a_statement_stays_prepared_when_a_transaction_is_rolled_back() -> None:
    sql = "SELECT %s::int AS stays_prepared"
    prepared.rows(sql, [1])
    before = named("stays_prepared")
    with transaction.atomic():
        prepared.rows(sql, [2])
        transaction.set_rollback(True)
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic():
            raise IntegrityError
        assert prepared.rows(sql, [3]) == [(3,)]
    assert named("stays_prepared") == before != []


def test_a_statement_is_prepared_anew_after_a_table_has_changed() -> None:
    sql = "SELECT * FROM prepared_anew"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE prepared_anew AS SELECT 1 AS a")
        try:
            assert prepared.rows(sql, []) == [(1,)]
            cursor.execute("ALTER TABLE prepared_anew ADD COLUMN b int DEFAULT 2")
            assert prepared.rows(sql, []) == [(1, 2)]
        finally:
            cursor.execute("DROP TABLE prepared_anew")


def test_it_takes_part_in_the_transaction_and_raises_as_django_does() -> None:
    insert = (
        "INSERT INTO kernel_lease (id, name, holder, epoch, note) "
        "VALUES (gen_random_uuid(), %s, '', 0, '{}') RETURNING name"
    )
    with transaction.atomic():
        prepared.rows(insert, ["gone"])
        transaction.set_rollback(True)
    assert prepared.rows("SELECT count(*) FROM kernel_lease WHERE name = %s", ["gone"]) == [(0,)]
    prepared.rows(insert, ["kept"])
    with pytest.raises(IntegrityError):
        prepared.rows(insert, ["kept"])


def test_named_and_plain_placeholders_do_not_mix() -> None:
    with pytest.raises(ValueError, match="either named placeholders or plain"):
        prepared.rows("SELECT %(a)s::int, %s::int", {"a": 1})
