"""How does a sweep do something to many objects, so that one that breaks stops no other?

Each object is done by itself. One that raises rests, longer each time, and the next
turns leave it out: neither is it tried again at once, nor does it take a place in a batch. What
rests is a row, so that all workers know; it is counted by ``gpuaas_sweep_faults`` and found by the
audit ``sweeps``, and each try is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F

from gpuaas.kernel import clock
from gpuaas.kernel.audits import MOST, Finding, register
from gpuaas.kernel.errors import ConcurrentUpdate, NotFound
from gpuaas.kernel.models import SweepFault
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.workflow import Backoff

log = logging.getLogger(__name__)

REST: Final = Backoff(first_s=30.0, factor=2.0, most_s=300.0)
"""Short, since what a sweep watches (a silent host, a lease that is over) is not safe meanwhile."""
LAPSED: Final = timedelta(hours=1)
"""What was due again and not tried for so long is no longer asked for: it is well, or gone."""
TOLD_AFTER: Final = 3
"""Tries after which the audit tells of an object."""

Find = Callable[[Collection[UUID]], Iterable[UUID]]
"""What is due, without the objects that rest."""


def each(sweep: str, find: Find, act: Callable[[UUID], object], *, at_once: bool = True) -> int:
    """Do ``act`` to all that ``find`` gives; how many were done (False says that one was not).

    ``at_once``: all of an object's work is one transaction; otherwise it has several of its own.

    An object that changed meanwhile, or that somebody else holds, is passed over and is due again
    in the next turn. A lost connection is raised.
    """
    with platform_scope():
        faults = SweepFault.objects.filter(sweep=sweep)
        known = dict(faults.values_list("subject_id", "next_at"))
        now = clock.db_now()
        done = 0
        for subject in list(find([one for one, at in known.items() if at > now])):
            try:
                with transaction.atomic() if at_once else nullcontext():
                    done += act(subject) is not False
                    if subject in known:
                        faults.filter(subject_id=subject).delete()
            except (ConcurrentUpdate, NotFound):
                continue
            except (OperationalError, InterfaceError) as busy:
                if not connection.is_usable():
                    raise
                log.info("sweep %s passes over %s: %s", sweep, subject, type(busy).__name__)
            except Exception as broken:
                _rest(sweep, subject, broken)
        if known:
            faults.filter(next_at__lt=now - LAPSED).delete()
    return done


def _rest(sweep: str, subject: UUID, broken: Exception) -> None:
    now = clock.db_now()
    said = {"error": type(broken).__name__[:80], "tried_at": now}
    row, new = SweepFault.objects.get_or_create(
        sweep=sweep,
        subject_id=subject,
        defaults={**said, "next_at": now + timedelta(seconds=REST.first_s)},
    )
    attempts = 1 if new else row.attempts + 1
    rest_s = REST.delay_s(attempts)
    if not new:
        SweepFault.objects.filter(pk=row.pk).update(
            **said, attempts=F("attempts") + 1, next_at=now + timedelta(seconds=rest_s)
        )
    log.exception("sweep %s cannot do %s, try %d; it rests %d s", sweep, subject, attempts, rest_s)


def sweeps_that_rest() -> list[Finding]:
    """Objects that a sweep has tried again and again: somebody has to look."""
    with platform_scope():
        rows = SweepFault.objects.filter(attempts__gte=TOLD_AFTER).order_by("first_at")[:MOST]
        return [
            Finding(
                "sweep_fault",
                f"{row.sweep} of {row.subject_id}",
                f"{row.attempts} tries since {row.first_at:%Y-%m-%d %H:%M} UTC ended in "
                f"{row.error}; the next is at {row.next_at:%H:%M:%S}",
                {"attempts": row.attempts, "error": row.error},
            )
            for row in rows
        ]


register("sweeps", sweeps_that_rest)
