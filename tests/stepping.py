"""How are two acts cut at each of their statements, and put back as if neither had been?

A ``Line`` is a thread with a connection of its own. Before each statement of an act, and before
each commit, it waits to be let go on. ``play`` follows a schedule: so many steps of the one, so
many of the other, and so on. A step that has to wait for the other's lock is left waiting, and
goes on when it can; PostgreSQL says who waits for whom. ``Still`` keeps the rows of a moment and
brings them back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, LiteralString

import psycopg
from django.db import connection, connections
from psycopg import sql

from gpuaas.embedded.postgres import SUPERUSER, Roles
from gpuaas.kernel import clock, prepared
from gpuaas.kernel.errors import ProductError

Act = Callable[[], Any]
Schedule = Sequence[tuple[int, int | None]]
"""Which line takes how many steps; None: until it ends or has to wait."""

LOOK_S: Final = 0.004
"""How long a step may take before PostgreSQL is asked whether it waits."""
STUCK_S: Final = 0.5
"""A step that waits for something else than a lock of PostgreSQL's is left waiting after this."""
GIVE_UP_S: Final = 30.0
NO_STEPS: Final = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO")
"""Between these and the statement that follows nothing can come that could not come before."""
_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMED: Final = re.compile(_UUID.pattern + r"|\b(?=\d*[a-f])[0-9a-f]{6,64}\b")
"""An id, or a name or a digest that is made from one."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(\+\d\d(:\d\d)?|Z)?")


@dataclass
class Played:
    """What became of two acts: a code for each ("" where it was done), and how they met.

    What broke an act and is no refusal is told as its kind and its words, with a colon between.
    """

    codes: list[str]
    steps: list[int]
    waited: int = 0


class Line:
    """A thread with a connection of its own that takes one step of an act when told to."""

    def __init__(self, news: SimpleQueue[Line]) -> None:
        self._news = news
        self._acts: SimpleQueue[Act | None] = SimpleQueue()
        self._may = threading.Semaphore(0)
        self._stepping = False
        self.pid = 0
        self.running = self.ended = False
        self.code = ""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.running = True
        self._thread.start()

    def _work(self) -> None:
        own = connections["default"]
        own.ensure_connection()
        self.pid = own.connection.info.backend_pid
        # The other's steps take as long as they take: who waits is not to give up meanwhile.
        own.connection.execute(f"SET lock_timeout = '{GIVE_UP_S:g}s'")
        own.connection.commit()
        commit = own._commit  # type: ignore[attr-defined]  # the one place before a COMMIT

        def gated_commit() -> None:
            self.gate()
            commit()

        own._commit = gated_commit  # type: ignore[attr-defined]  # of this connection only
        self._news.put(self)
        with own.execute_wrapper(self._gated):
            while (act := self._acts.get()) is not None:
                self._do(act)
        del own._commit  # type: ignore[attr-defined]  # as the class has it
        own.connection.execute("RESET lock_timeout")
        own.connection.commit()
        connections.close_all()

    def _gated(self, execute: Any, text: str, params: Any, many: bool, context: Any) -> Any:
        if not text.startswith(NO_STEPS):
            self.gate()
        return execute(text, params, many, context)

    def gate(self) -> None:
        """Wait to be let go on."""
        if self._stepping and threading.current_thread() is self._thread:
            self._news.put(self)
            self._may.acquire()

    def _do(self, act: Act) -> None:
        self._stepping = True
        self.code = ""
        try:
            act()
        except ProductError as refused:
            self.code = refused.code
        except BaseException as broke:  # whoever plays is told
            self.code = f"{type(broke).__name__}: {broke}"[:300]
        finally:
            self._stepping = False
        self.ended = True
        self._news.put(self)

    def start(self, act: Act) -> None:
        """Hand it an act; it comes to the act's first statement."""
        self.running, self.ended = True, False
        self._acts.put(act)

    def let_go(self) -> None:
        """Let it take one step."""
        self.running = True
        self._may.release()

    def close(self) -> None:
        """End the thread."""
        self._acts.put(None)
        self._thread.join(GIVE_UP_S)


class Stepper:
    """Two lines, and a connection that sees who waits for whom. A context manager."""

    def __init__(self, look: psycopg.Connection[Any]) -> None:
        self._look = look
        self._news: SimpleQueue[Line] = SimpleQueue()
        self.lines = (Line(self._news), Line(self._news))
        self._rows = prepared.rows
        self._settle()

    def __enter__(self) -> Stepper:
        def rows(sql: LiteralString, params: Any) -> list[tuple[Any, ...]]:
            for line in self.lines:
                line.gate()
            return self._rows(sql, params)

        prepared.rows = rows
        return self

    def __exit__(self, *_: object) -> None:
        prepared.rows = self._rows
        for line in self.lines:
            line.close()

    def _waits(self, line: Line) -> bool:
        found = self._look.execute("SELECT pg_blocking_pids(%s)", [line.pid]).fetchone()
        return found is not None and any(other.pid in found[0] for other in self.lines)

    def _hear(self, timeout_s: float) -> bool:
        try:
            self._news.get(timeout=timeout_s).running = False
        except Empty:
            return False
        return True

    def _settle(self) -> None:
        """Come back when each line stands before a step, has ended, or waits for the other."""
        began = clock.monotonic()
        while any(line.running for line in self.lines):
            if self._hear(LOOK_S):
                continue
            going = [line for line in self.lines if line.running]
            late = clock.monotonic() - began
            if len(going) < len(self.lines) and (late > STUCK_S or all(map(self._waits, going))):
                return
            assert late < GIVE_UP_S, "a step waits for ever"

    def play(self, acts: tuple[Act, Act], schedule: Schedule) -> Played:
        """Both acts by the schedule; what it leaves over is done in the end."""
        for line, act in zip(self.lines, acts, strict=True):
            line.start(act)
        steps, waited = [0, 0], 0
        self._settle()
        left = list(schedule)
        began = clock.monotonic()
        while left or not all(line.ended for line in self.lines):
            left = left or [(0, None), (1, None)]
            who, most = left.pop(0)
            line, taken = self.lines[who], 0
            while not line.ended and not line.running and (most is None or taken < most):
                line.let_go()
                self._settle()
                taken += 1
            steps[who] += taken
            waited += line.running
            assert clock.monotonic() - began < GIVE_UP_S, "the acts do not end"
        return Played([line.code for line in self.lines], steps, waited)


class Still:
    """The rows of all tables at a moment, kept in a schema of the test's own."""

    def __init__(self, own: psycopg.Connection[Any], schema: str) -> None:
        self._own, self._schema = own, schema
        self._tables = [
            row[0]
            for row in own.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                "AND relkind = 'r' AND NOT relispartition AND relname NOT LIKE 'django_%' "
                "ORDER BY 1"
            )
        ]
        self._columns: dict[str, sql.Composed] = {}
        self._lasting: dict[str, sql.Composed] = {}
        for table in self._tables:
            self._read_columns(table)

    def _read_columns(self, table: str) -> None:
        rows = self._own.execute(
            "SELECT attname, atttypid::regtype::text FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            [table],
        ).fetchall()
        self._columns[table] = sql.SQL(", ").join([sql.Identifier(name) for name, _ in rows])
        lasting: list[sql.Composable] = [sql.Literal("")]
        for name, kind in rows:
            if kind == "timestamp with time zone":
                lasting.append(sql.SQL("{} IS NULL").format(sql.Identifier(name)))
            elif kind != "xid8" and not (kind == "bigint" and name in ("id", "event_id", "xid")):
                lasting.append(sql.Identifier(name))
        self._lasting[table] = sql.SQL("ROW({})").format(sql.SQL(", ").join(lasting))

    def keep(self) -> None:
        """Keep what is so now."""
        self.drop()
        with self._own.transaction():
            self._own.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            made = [
                sql.SQL("CREATE TABLE {kept} AS SELECT {columns} FROM {table};").format(
                    kept=sql.Identifier(self._schema, table),
                    columns=self._columns[table],
                    table=sql.Identifier("public", table),
                )
                for table in self._tables
            ]
            self._own.execute(sql.Composed(made))
            back = [
                sql.SQL(
                    "DELETE FROM {table}; "
                    "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE "
                    "SELECT {columns} FROM {kept};"
                ).format(
                    kept=sql.Identifier(self._schema, table),
                    columns=self._columns[table],
                    table=sql.Identifier("public", table),
                )
                for table in self._tables
            ]
            self._own.execute(
                sql.SQL("CREATE FUNCTION {}.back() RETURNS void LANGUAGE plpgsql AS {}").format(
                    sql.Identifier(self._schema),
                    sql.Literal(f"BEGIN {sql.Composed(back).as_string(self._own)} END"),
                )
            )

        self._keep_names()

    def bring_back(self) -> None:
        """As it was then: without triggers, since nobody moves anything."""
        with self._own.transaction():
            self._own.execute("SET LOCAL session_replication_role = replica")
            self._own.execute(sql.SQL("SELECT {}.back()").format(sql.Identifier(self._schema)))

    def told(self) -> tuple[str, ...]:
        """What is otherwise than it was then: rows that came (+) and went (-), in a fixed order.

        Without what differs each time: when something was, and what new rows are called.
        """
        rows = self._own.execute(self._otherwise, prepare=True).fetchall()
        return tuple(sorted(_NAMED.sub(self._known, _TIME.sub("@", row[0])) for row in rows))

    def _known(self, found: re.Match[str]) -> str:
        return found[0] if found[0] in self._ids else "#"

    def _keep_names(self) -> None:
        """Which ids there are, and the statement that finds what is otherwise."""
        self._ids: set[str] = set()
        parts = []
        for table in self._tables:
            kept, live = sql.Identifier(self._schema, table), sql.Identifier("public", table)
            for (text,) in self._own.execute(sql.SQL("SELECT k::text FROM {} k").format(kept)):
                self._ids.update(_UUID.findall(text))
            for sign, one, other in (("+", live, kept), ("-", kept, live)):
                parts.append(
                    sql.SQL(
                        "SELECT {} || t FROM (SELECT ({row})::text AS t FROM {one} "
                        "EXCEPT ALL SELECT ({row})::text FROM {other}) d"
                    ).format(
                        sql.Literal(f"{sign}{table} "),
                        row=self._lasting[table],
                        one=one,
                        other=other,
                    )
                )
        self._otherwise = sql.SQL(" UNION ALL ").join(parts)

    def drop(self) -> None:
        """Forget what was kept."""
        self._own.execute("SET client_min_messages = warning")
        gone = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self._schema))
        self._own.execute(gone)


@contextmanager
def superuser(services: Path) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the test's database that may look at others' locks and skip triggers.

    Meanwhile a deadlock among new connections is found at once.
    """
    target = connection.settings_dict
    role = sql.Identifier(target["USER"])
    with psycopg.connect(
        host=target["HOST"],
        port=target["PORT"],
        dbname=target["NAME"],
        user=SUPERUSER,
        password=Roles.kept_in(services / "secrets").superuser,
        autocommit=True,
    ) as own:
        own.execute(sql.SQL("ALTER ROLE {} SET deadlock_timeout = '30ms'").format(role))
        try:
            yield own
        finally:
            own.execute(sql.SQL("ALTER ROLE {} RESET deadlock_timeout").format(role))
