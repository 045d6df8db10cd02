"""Was this request carried out before?  A key, what it stood for, and the answer it got.

The key's row is written first and commits with the effect, in one transaction: after any
network error the same key tells what happened. A twin that comes meanwhile waits on the
row itself, in the database, at most ``TWIN_WAIT_S``. An effect that is one statement can take
the key along (``Carried``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import OperationalError, transaction

from gpuaas.kernel import clock, errors, prepared
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.jsontext import as_json
from gpuaas.kernel.models.work import IdempotencyKey
from gpuaas.kernel.scope import platform_scope

TWIN_WAIT_S = 2.0
KEPT_S = 24 * 3600
LOCK_NOT_AVAILABLE = "55P03"
KEY_USED = "GP003"
AT = "@at@"
"""Stands in a carried answer for the time of the statement that carries it."""

# One statement: a shorter patience, the row, and the patience that was, which comes back when
# the insert is through, also when the key was there.
_CLAIM = """
WITH patience AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS usual, set_config('lock_timeout', %s, true)
), claimed AS (
    INSERT INTO kernel_idempotencykey (principal, key, fingerprint, headers, expires_at)
    SELECT %s::text, %s::text, %s::text, '{}'::jsonb,
           coalesce(%s::timestamptz, clock_timestamp()) + %s::interval
      FROM patience
    ON CONFLICT (principal, key) DO NOTHING
    RETURNING id
)
SELECT ended.id, set_config('lock_timeout', (SELECT usual FROM patience), true)
  FROM (SELECT max(id) AS id FROM claimed) ended
"""
_KEEP = """
UPDATE kernel_idempotencykey SET status = %s, headers = %s::jsonb, body = %s WHERE id = %s
RETURNING 1
"""


class IdempotencyKeyInUse(errors.ProductError):
    """The first request with this key has not been answered yet."""

    code = "idempotency_key_in_use"
    status = 409
    title = "A request with this Idempotency-Key is being carried out"
    unblock = "Repeat the request with the same key in a moment to get its answer."
    retryable = True


class IdempotencyKeyReused(errors.ProductError):
    """The key stood for something else."""

    code = "idempotency_key_reused"
    status = 422
    title = "The Idempotency-Key was used for another request"
    unblock = "Send a fresh key with a new request; repeat a key only with the same body."


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer as it was given."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class KeyUsedError(Exception):
    """The key that a statement carried was used before; nothing was written."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A key on its way with the one statement that is the whole effect, and with the answer that
    is given if that succeeds. What refuses the key, refuses the effect."""

    principal: str
    key: str
    fingerprint: str
    status: int
    headers: Mapping[str, str]
    form: str
    """The body as text, with ``AT`` where its time belongs."""

    def as_json(self) -> str:
        """What the statement is given: see ``p_key`` of ``placement_commit``."""
        said = clock.stand_in()
        return as_json(
            [
                self.principal,
                self.key,
                self.fingerprint,
                self.status,
                dict(self.headers),
                self.form,
                said.isoformat() if said else None,
                KEPT_S,
                _patience(),
            ]
        )

    def body(self, at: datetime) -> bytes:
        """The answer, as it was kept by a statement of that time."""
        told = at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return self.form.replace(AT, told).encode()


def _patience() -> str:
    """How long a twin is waited for, as the database takes it."""
    return f"{int(TWIN_WAIT_S * 1000)}ms"


def refuse_carried(code: str) -> None:
    """Raise KeyUsedError or IdempotencyKeyInUse, where one of them is why nothing was written."""
    if code == KEY_USED:
        raise KeyUsedError
    if code == LOCK_NOT_AVAILABLE:
        raise IdempotencyKeyInUse


class Guard:
    """One use of a key: either ``replay`` is the answer to give, or the work is yours to do."""

    def __init__(self, row_id: int, replay: Stored | None) -> None:
        self.replay = replay
        self._row_id = row_id
        self._answer: Stored | None = None

    def store(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Remember this answer, to commit with the effect. An answer of 500 and more is not
        remembered: the key is free again."""
        if status < 500:
            self._answer = Stored(status, dict(headers), body)

    def _write(self) -> None:
        answer = self._answer
        with platform_scope():
            if answer is None:
                IdempotencyKey.objects.filter(pk=self._row_id).delete()
                return
            headers = json.dumps(dict(answer.headers))
            prepared.rows(_KEEP, (answer.status, headers, answer.body, self._row_id))


def principal_of(actor: Actor) -> str:
    """Whose keys these are: two principals may use the same key for different things."""
    return f"{actor.kind}:{actor.id}:{actor.tenant_id or ''}"[:80]


def fingerprint_of(method: str, path: str, body: bytes) -> str:
    """What a request stands for: 64 hex digits over method, path with query, and body."""
    digest = hashlib.sha256()
    for part in (method.upper().encode(), path.encode(), body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


@contextmanager
def guard(
    principal: str, key: str, fingerprint: str, *, kept_s: float = KEPT_S, whole: bool = False
) -> Iterator[Guard]:
    """Carry out the block at most once for this principal's key.

    Inside, either answer with ``replay``, or do the work and ``store`` the answer. When the
    block raises or stores nothing, the key is forgotten with all that the block wrote.
    Raises IdempotencyKeyReused (other fingerprint) or IdempotencyKeyInUse (a twin is still
    running after ``TWIN_WAIT_S``). Everything is in one transaction, the caller's if open.

    With ``whole`` the block is all that the caller's transaction does, and an error ends that
    transaction: no savepoint is needed to undo the block alone.
    """
    with transaction.atomic(savepoint=not whole):
        with platform_scope():
            use = _claim(principal, key, fingerprint, kept_s)
        yield use
        if use.replay is None:
            use._write()


def _claim(principal: str, key: str, fingerprint: str, kept_s: float) -> Guard:
    said = clock.stand_in()
    values = (principal, key, fingerprint, said, timedelta(seconds=kept_s))
    row_id = _insert(values)
    if row_id is not None:
        return Guard(row_id, None)
    # The insert saw a committed row; a new statement sees it too unless it was removed since.
    now = clock.db_now()
    row = IdempotencyKey.objects.filter(principal=principal, key=key).first()
    if row is not None and row.expires_at <= now:
        IdempotencyKey.objects.filter(pk=row.pk, expires_at__lte=now).delete()
        row = None
    if row is None:
        row_id = _insert(values)
        if row_id is None:
            raise IdempotencyKeyInUse
        return Guard(row_id, None)
    if row.fingerprint != fingerprint:
        raise IdempotencyKeyReused
    if row.status is None:
        raise IdempotencyKeyInUse
    return Guard(row.pk, Stored(row.status, row.headers, bytes(row.body or b"")))


def _insert(values: tuple[object, ...]) -> int | None:
    """The new row's id, or None when the key is there. Waits for an uncommitted twin; one that
    takes too long breaks the transaction, which the guard's error ends."""
    try:
        found = prepared.rows(_CLAIM, (_patience(), *values))
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise IdempotencyKeyInUse from error
        raise
    ((row_id, _usual),) = found
    return None if row_id is None else int(row_id)


def sweep(limit: int = 10_000) -> int:
    """Forget keys whose time is over; returns how many."""
    with platform_scope():
        gone = IdempotencyKey.objects.filter(expires_at__lte=clock.db_now())
        removed, _ = IdempotencyKey.objects.filter(
            pk__in=gone.order_by("expires_at").values("pk")[:limit]
        ).delete()
    return removed
