"""May the helper do this, for this task of the control plane's? Checked anew for every verb.

A verb that a task causes comes with the signed task, and with nothing beside it that could be
wider: claim, devices, image and limits are read out of what was signed. The first time a lease of
a task is seen it must be valid now; it is then written down, so that no earlier lease of it counts
any more, and goes on for a bounded time, since work takes longer than a lease is signed for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nodeagent.backend import BackendError
from nodeagent.clock import Clock
from nodeagent.files import read_json, write_json
from nodeagent.host.helper.keys import ControlKeys
from nodeagent.host.helper.wire import VERBS_OF, Verb
from nodeagent.protocol import (
    CLOCK_WINDOW_S,
    PROVISION_KINDS,
    RELEASE_KINDS,
    RefusalCode,
    SignedTask,
    TaskEnvelope,
    TaskKind,
    TaskParams,
    WireError,
    sha256_hex,
    task_allocation,
    task_signing_bytes,
)
from nodeagent.verify import TaskRefused, open_envelope, open_params

log = logging.getLogger("nodeagent.helper")
_HOUR_S = 3600


@dataclass(frozen=True)
class Patience:
    """How far, in seconds.

    clock: the helper's clock and the control plane's may be apart, when a lease is first seen.
    work: its verbs may be asked for after that.
    """

    clock: int
    work: int


MAKING = Patience(CLOCK_WINDOW_S, 6 * _HOUR_S)
RELEASING = Patience(24 * _HOUR_S, 7 * 24 * _HOUR_S)
"""A release is final: whoever repeats it ends what has ended. So it is never worth refusing one
because a clock is wrong or the control plane was away, and what it could be used for is nothing."""


@dataclass(frozen=True)
class Grant:
    """What the control plane has signed."""

    envelope: TaskEnvelope
    params: TaskParams

    @property
    def claim(self) -> str:
        """The allocation that it is for, '' where it is for none."""
        return task_allocation(self.params) or ""


@dataclass(frozen=True)
class _Seen:
    """The newest lease of a task. digest: of its envelope; spent: its one burn-in has begun."""

    epoch: int
    digest: str
    kind: str
    expires_at: int
    at: float
    spent: bool = False


class Grants:
    """What was signed for this host, and what of it was seen.

    keys: whose orders are taken, read anew each time. memory: where it is written down. boot: this
    boot's id. kinds: what the operator lets this host do.
    """

    def __init__(
        self,
        keys: Callable[[], ControlKeys],
        memory: Path,
        boot: str,
        clock: Clock,
        kinds: Collection[TaskKind],
    ) -> None:
        self._keys = keys
        self._memory = memory
        self._boot = boot
        self._clock = clock
        self._kinds = frozenset(kinds)
        self._lock = threading.Lock()
        self._tasks: dict[str, _Seen] = {}
        self._released: dict[str, float] = {}
        self._read()

    def usable(self) -> str:
        """Why no task would be taken now; '' where one would."""
        try:
            self._keys()
        except BackendError as error:
            return error.detail
        return ""

    def believed(self) -> ControlKeys | None:
        """Which node this is and whose orders count, as root has it now; None where unusable."""
        try:
            return self._keys()
        except BackendError:
            return None

    def checked(self, verb: Verb, signed: SignedTask) -> Grant:
        """What the task allows, where it allows this verb now. Raises BackendError by name."""
        try:
            grant = self._opened(signed)
        except TaskRefused as error:
            raise _refused(error.code, error.detail) from error
        kind = grant.envelope.kind
        if verb not in VERBS_OF.get(kind, ()):
            raise _refused("verb_not_allowed", f"a task of kind {kind} allows no {verb}")
        with self._lock:
            self._admit(grant, signed, spends=verb is Verb.BURN_IN)
        return grant

    def _opened(self, signed: SignedTask) -> Grant:
        """By whom, for whom and for what, as far as the task itself says. Raises TaskRefused."""
        trusted = self._keys()
        envelope = open_envelope(signed, trusted.keys)
        if envelope.node_id != trusted.node_id:
            detail = f"the task is for another node than {trusted.node_id}"
            raise TaskRefused(RefusalCode.WRONG_NODE, detail)
        if envelope.kind not in self._kinds:
            raise TaskRefused(
                RefusalCode.UNSUPPORTED_TASK, "this host is not set up for this kind of task"
            )
        if envelope.boot_id is not None and envelope.boot_id != self._boot:
            raise TaskRefused(RefusalCode.WRONG_BOOT, "the task is for another boot of this node")
        return Grant(envelope, open_params(envelope, signed.params))

    def _admit(self, grant: Grant, signed: SignedTask, *, spends: bool) -> None:
        """Whether it counts now, and the note that it was seen; the lock is held."""
        envelope, now = grant.envelope, self._clock.now()
        known = self._tasks.get(envelope.task_id)
        digest = sha256_hex(task_signing_bytes(signed.envelope))
        if known is not None and envelope.lease_epoch < known.epoch:
            detail = (
                f"lease {known.epoch} of this task was seen, and this is {envelope.lease_epoch}"
            )
            raise _refused(RefusalCode.STALE_EPOCH, detail)
        if envelope.kind in PROVISION_KINDS and grant.claim in self._released:
            detail = "a release of this allocation was signed and seen here"
            raise _refused(RefusalCode.ALLOCATION_RELEASED, detail)
        if known is None or envelope.lease_epoch > known.epoch:
            _refuse_out_of_time(envelope, now)
            known = _Seen(envelope.lease_epoch, digest, envelope.kind, envelope.expires_at, now)
        elif known.digest != digest:
            detail = "another task was seen under this lease's number"
            raise _refused(RefusalCode.TASK_REPLAYED, detail)
        elif known.spent and spends:
            detail = "this lease's burn-in has begun already; another lease may begin another"
            raise _refused(RefusalCode.TASK_REPLAYED, detail)
        elif now > known.at + _patience(envelope.kind).work:
            raise _refused(
                RefusalCode.TASK_EXPIRED,
                f"it was seen first {now - known.at:.0f} s ago, and its work had "
                f"{_patience(envelope.kind).work} s; another lease may go on",
            )
        self._note(envelope, replace(known, spent=known.spent or spends), grant.claim, now)

    def _note(self, envelope: TaskEnvelope, seen: _Seen, claim: str, now: float) -> None:
        """On disk when this returns; where it cannot be written nothing was taken."""
        releases = envelope.kind in RELEASE_KINDS
        if self._tasks.get(envelope.task_id) == seen and (claim in self._released or not releases):
            return
        # What cannot be taken any more need not be remembered.
        tasks = {name: one for name, one in self._tasks.items() if not _forgotten(one, now)}
        tasks[envelope.task_id] = seen
        most = RELEASING.work
        released = {name: at for name, at in self._released.items() if now - at <= most}
        if releases:
            released[claim] = now
        stored = {"tasks": {name: asdict(one) for name, one in tasks.items()}, "released": released}
        write_json(self._memory, stored)
        self._tasks, self._released = tasks, released

    def _read(self) -> None:
        try:
            stored = read_json(self._memory) or {"tasks": {}, "released": {}}
            self._tasks = {name: _Seen(**one) for name, one in stored["tasks"].items()}
            self._released = {name: float(at) for name, at in stored["released"].items()}
        except (WireError, AttributeError, KeyError, TypeError, ValueError):
            # Releases must go on. What was seen before is known by the records and by expiry alone.
            log.warning("%s is damaged; it is set aside, and begun anew", self._memory)
            self._memory.replace(self._memory.with_name(f"{self._memory.name}.damaged"))
            self._tasks, self._released = {}, {}


def _patience(kind: str) -> Patience:
    return RELEASING if kind in RELEASE_KINDS else MAKING


def _forgotten(seen: _Seen, now: float) -> bool:
    """Whether neither this lease nor an earlier one could be taken any more."""
    patience = _patience(seen.kind)
    return now > max(seen.expires_at + patience.clock, seen.at + patience.work)


def _refuse_out_of_time(envelope: TaskEnvelope, now: float) -> None:
    """By the helper's own clock: what the agent believes of the time is the agent's."""
    patience = _patience(envelope.kind).clock
    if now > envelope.expires_at + patience:
        late = f"{now - envelope.expires_at:.0f} s after its end"
        raise _refused(
            RefusalCode.TASK_EXPIRED,
            f"by this host's clock it comes {late}, and {patience} s are allowed; check the clock",
        )
    if now + patience < envelope.not_before:
        early = f"{envelope.not_before - now:.0f} s before its beginning"
        raise _refused(
            RefusalCode.TASK_NOT_YET_VALID,
            f"by this host's clock it comes {early}, and {patience} s are allowed; check the clock",
        )


def _refused(code: str, detail: str) -> BackendError:
    """Named as what it is, and by whom: the agent has checked the same before."""
    # Root may be about to write a new key down: then another lease is taken.
    passing = (
        RefusalCode.SIGNATURE_INVALID,
        RefusalCode.TASK_EXPIRED,
        RefusalCode.TASK_NOT_YET_VALID,
        RefusalCode.WRONG_BOOT,
    )
    return BackendError(str(code), f"the host's helper: {detail}"[:2000], retryable=code in passing)
