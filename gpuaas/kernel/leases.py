"""Who may do the thing that only one may do at a time?  A row in the database says."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from functools import cache

from django.db import connection, transaction

from gpuaas.kernel import clock, ids

_TAKE = """
INSERT INTO kernel_lease (id, name, holder, until, epoch, note)
SELECT u.id, u.name, %(holder)s,
       coalesce(%(now)s, clock_timestamp()) + make_interval(secs => u.ttl), 1, '{}'
  FROM unnest(%(ids)s::uuid[], %(names)s::text[], %(ttls)s::float8[]) AS u(id, name, ttl)
    ON CONFLICT (name) DO UPDATE
   SET holder = excluded.holder, until = excluded.until,
       epoch = kernel_lease.epoch + (kernel_lease.holder <> excluded.holder
                 OR kernel_lease.until IS NULL
                 OR kernel_lease.until <= coalesce(%(now)s, clock_timestamp()))::int
 WHERE kernel_lease.until IS NULL
    OR kernel_lease.until <= coalesce(%(now)s, clock_timestamp())
    OR (%(renew)s AND kernel_lease.holder = excluded.holder)
RETURNING name, epoch
"""


def fresh_holder() -> str:
    """A name that nobody else has, for a holder that shares its process with others."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


@cache
def _holder_of(pid: int) -> str:
    return fresh_holder()


def this_process() -> str:
    """This process's name as a holder; a forked child has another one."""
    return _holder_of(os.getpid())


def acquire(name: str, ttl_s: float, holder: str | None = None) -> int | None:
    """Take or renew the lease for ``ttl_s`` seconds of the database's clock.

    Returns the epoch, which grows each time the lease changes hands (or lapsed in between):
    write it beside what the lease protects, so that a late holder can be told. None: another
    holds it.
    """
    return _take({name: ttl_s}, holder or this_process(), renew=True).get(name)


def take_turns(periods: Mapping[str, float], holder: str | None = None) -> set[str]:
    """Of these names, those whose last period (seconds) is over; each begins a new one.

    One statement for all. However many processes ask, a name is handed out once a period.
    """
    if not periods:
        return set()
    with transaction.atomic(), connection.cursor() as cursor:
        # A turn lost in a crash is taken again a period later: no need to wait for the disk.
        cursor.execute("SET LOCAL synchronous_commit = off")
        return set(_take(periods, holder or this_process(), renew=False))


def release(name: str, holder: str | None = None) -> None:
    """Give the lease back early; somebody else's lease stays as it is."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE kernel_lease SET until = NULL WHERE name = %s AND holder = %s",
            [name, holder or this_process()],
        )


def _take(wanted: Mapping[str, float], holder: str, *, renew: bool) -> dict[str, int]:
    names = sorted(wanted)
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKE,
            {
                "now": clock.stand_in(),
                "holder": holder,
                "ids": [ids.new_id() for _ in names],
                "names": names,
                "ttls": [float(wanted[name]) for name in names],
                "renew": renew,
            },
        )
        return dict(cursor.fetchall())
