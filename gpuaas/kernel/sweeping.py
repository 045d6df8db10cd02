"""How does a sweep do something to many objects, so that one that breaks stops no other?

Each object is done by itself, or several together as long as none of them breaks. One that
raises rests, longer each time, and the next turns leave it out: neither is it tried again at
once, nor does it take a place in a batch. What rests is a row, so that all workers know; it is
counted by ``gpuaas_sweep_faults`` and found by the audit ``sweeps``, and each try is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import F

from gpuaas.kernel import clock
from gpuaas.kernel.audits import MOST, Finding, register
from gpuaas.kernel.errors import ConcurrentUpdate, NotFound, TransitionRefused
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
    in the next turn; so is one that somebody else has moved, as long as it is not due any more. A
    lost connection is raised.
    """
    turn = _Turn(sweep, lambda some: sum(act(one) is not False for one in some), at_once=at_once)
    return turn.take(find, size=1)


def many(sweep: str, find: Find, act: Callable[[Sequence[UUID]], int], *, size: int) -> int:
    """Do ``act`` to all that ``find`` gives, ``size`` objects in a transaction; how many were done.

    ``act`` says how many of its objects it did. Where it breaks, each of them is done by itself,
    as by ``each``.
    """
    return _Turn(sweep, act, at_once=True).take(find, size=size)


def in_order(sweep: str, find: Find, steps: Callable[[UUID], Iterable[int]]) -> int:
    """Do the steps of each object that ``find`` gives, in their order; how much was done.

    Each step is a transaction of its own, and says how much it did. One that breaks stops the
    later ones of its object, and no other object's; what came before it stays, and is counted.
    """
    done = 0

    def act(subject: UUID) -> None:
        nonlocal done
        for count in steps(subject):
            done += count

    each(sweep, find, act, at_once=False)
    return done


class _Turn:
    """One turn of a sweep: what rests, and what is done."""

    def __init__(self, sweep: str, act: Callable[[Sequence[UUID]], int], *, at_once: bool) -> None:
        self.sweep, self.act, self.at_once = sweep, act, at_once
        self.faults = SweepFault.objects.filter(sweep=sweep)

    def take(self, find: Find, *, size: int) -> int:
        """Do what is due, ``size`` objects together."""
        self.find = find
        with platform_scope():
            self.known = dict(self.faults.values_list("subject_id", "next_at"))
            now = clock.db_now()
            due = list(find([one for one, at in self.known.items() if at > now]))
            done = 0
            for start in range(0, len(due), size):
                some = due[start : start + size]
                together = self._together(some) if size > 1 else None
                done += sum(map(self._alone, some)) if together is None else together
            if self.known:
                self.faults.filter(next_at__lt=now - LAPSED).delete()
        return done

    def _done(self, some: Sequence[UUID]) -> int:
        with transaction.atomic() if self.at_once else nullcontext():
            count = self.act(some)
            if again := self.known.keys() & set(some):
                self.faults.filter(subject_id__in=again).delete()
        return count

    def _together(self, some: Sequence[UUID]) -> int | None:
        """None when it broke: then nothing of it happened."""
        try:
            return self._done(some)
        except Exception as broken:
            raise_if_lost(broken)
            kind = type(broken).__name__
            log.info("sweep %s: %s in %d together; one by one", self.sweep, kind, len(some))
        return None

    def _alone(self, subject: UUID) -> int:
        try:
            return self._done([subject])
        except (ConcurrentUpdate, NotFound):
            pass
        except TransitionRefused as refused:
            # Somebody was faster, if it is not to be done any more.
            if subject in set(self.find([])):
                _rest(self.sweep, subject, refused)
        except (OperationalError, InterfaceError) as busy:
            raise_if_lost(busy)
            log.info("sweep %s passes over %s: %s", self.sweep, subject, type(busy).__name__)
        except Exception as broken:
            _rest(self.sweep, subject, broken)
        return 0


def raise_if_lost(error: Exception) -> None:
    """Raise what came of a lost connection: nothing else can be done on it either."""
    if isinstance(error, DatabaseError | InterfaceError) and not connection.is_usable():
        raise error


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
