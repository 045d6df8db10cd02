"""What does the agent of one host do, over and over?

Join once, then in rounds: renew the credential when it is half used, report what is on the host,
send results that nobody has acknowledged, and lease work. Every task is verified before anything is
done, written to the journal before it begins, and its result before it is first sent. After a
restart or reboot nothing is resumed: what was begun and not finished is reported as `interrupted`,
after a fresh report of what is really on the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass, field

from nodeagent.backend import Backend, BackendError, HostRebooted, HostUnknown, LeaseLost
from nodeagent.client import ControlPlane, Refused, Unreachable
from nodeagent.clock import Clock
from nodeagent.files import told
from nodeagent.identity import AgentHome, Identity
from nodeagent.journal import Entry, Journal, Outcome
from nodeagent.membership import Membership
from nodeagent.protocol import (
    PROVISION_KINDS,
    RELEASE_KINDS,
    FailRequest,
    FailureCode,
    LeaseAnswer,
    LeaseRequest,
    RefusalCode,
    SignedTask,
    TaskKind,
    Unwanted,
)
from nodeagent.reporting import Reporter
from nodeagent.shares import Shares
from nodeagent.telemetry.sending import Feed, TelemetrySender
from nodeagent.verify import (
    Facts,
    TaskRefused,
    VerifiedTask,
    reply_address,
    verify_devices,
    verify_task,
)
from nodeagent.work import LeaseKeeper, carry_out, failure

log = logging.getLogger("nodeagent")
# The task itself may be sound, and a new lease of it taken. A key that is unknown may be one that
# is not known yet: keys rotate, on hosts and in the control plane's processes one after the other.
_WRONG_MOMENT = (
    RefusalCode.SIGNATURE_INVALID,
    RefusalCode.TASK_EXPIRED,
    RefusalCode.TASK_NOT_YET_VALID,
    RefusalCode.WRONG_BOOT,
)


_TOO_LARGE = 413


@dataclass(frozen=True)
class Pace:
    """How often things are done, in seconds; the server's next_poll_ms sets the rest."""

    token_wait_s: float = 2.0
    report_every_s: float = 15.0
    heartbeat_every_s: float = 2.0
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    most_tasks: int = 4


@dataclass
class _Running:
    """Work that is under way. stop ends it at its next step."""

    verified: VerifiedTask
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    job: asyncio.Task[None] | None = None


class Agent:
    """The agent of one host. `step` is one round; `run` is rounds until it is told to stop."""

    def __init__(
        self,
        home: AgentHome,
        backend: Backend,
        control: ControlPlane,
        clock: Clock,
        *,
        pace: Pace | None = None,
        chance: random.Random | None = None,
        telemetry: Feed | None = None,
    ) -> None:
        self.home = home
        self.backend = backend
        self.control = control
        self.clock = clock
        self.pace = pace or Pace()
        self._chance = chance or random.Random()
        self._running: dict[str, _Running] = {}
        self._allocation_turns: dict[str, asyncio.Lock] = {}
        self._wake = asyncio.Event()
        self._failures = 0
        self._delivering: set[str] = set()
        self._said: set[str] = set()
        self.membership = Membership(home, backend, control)
        self.reporter = Reporter(home, backend, control, clock, self.pace.report_every_s)
        self._telemetry = TelemetrySender(telemetry, control, clock) if telemetry else None
        self.journal = self._read_journal()
        self._shares = Shares(home.folder / "shares.json")

    async def run(self, stop: asyncio.Event) -> None:
        """Rounds until `stop` is set; then work under way is dropped, as in a crash."""
        await self._pause(self._chance.uniform(0, self.pace.token_wait_s), stop)
        try:
            while not stop.is_set():
                delay = await self.step()
                await self._pause(delay, stop)
        finally:
            await self._drop_work()

    async def step(self) -> float:
        """One round. Returns the seconds to wait before the next, with jitter."""
        self._wake.clear()
        try:
            identity = await self.membership.current()
            if identity is None:
                return self._jittered(self.pace.token_wait_s)
            identity = await self.membership.settled_key(identity)
            await self.reporter.report_if_due()
            await self._deliver_results()
            answer = await self._lease()
            for load in answer.unwanted:
                await self._end(load)
            for task in answer.tasks:
                await self._take(task, identity)
            if self._telemetry is not None:
                await self._telemetry.send_if_due(self.backend.boot_id())
        except Unreachable as error:
            return self._backoff(f"unreachable: {error}")
        except Refused as refusal:
            return self._refused(refusal)
        except HostUnknown as error:
            return self._backoff(f"nothing is reported: {error}")
        except OSError as error:
            return self._backoff(f"this host: {told(error)}")
        except Exception:
            # A host whose hardware cannot be read now must still be there for the next round.
            log.exception("a round of %s broke", self.backend.hostname)
            return self._backoff("a round broke")
        self._failures = 0
        return self._jittered(answer.next_poll_ms / 1000)

    async def settle(self) -> None:
        """Wait until no task is under way."""
        while self._running:
            jobs = [one.job for one in self._running.values() if one.job is not None]
            await asyncio.gather(*jobs, return_exceptions=True)

    # Results

    async def _deliver_results(self) -> None:
        for entry in self.journal.undelivered():
            try:
                await self._deliver_once(entry)
            except Refused as refusal:
                if not (refusal.foreign and refusal.status == _TOO_LARGE):
                    raise
                # What lies between does not let this one through; the others may pass.
                self._say_once(f"the result of task {entry.task_id} does not get through", refusal)

    async def _deliver_once(self, entry: Entry) -> None:
        """Deliver, unless the work that made the result is delivering it right now."""
        if entry.task_id in self._delivering:
            return
        self._delivering.add(entry.task_id)
        try:
            await self.deliver(entry)
        finally:
            self._delivering.discard(entry.task_id)

    async def deliver(self, entry: Entry) -> None:
        """Send a result. It stays in the journal until the control plane took or declined it.

        Raises Unreachable or Refused when it must be sent again later.
        """
        assert entry.outcome is not None
        try:
            await self.control.deliver(entry.task_id, entry.outcome.verb, entry.outcome.body)
        except Refused as refusal:
            if refusal.passing or refusal.foreign or refusal.status in (401, 403):
                raise
            log.warning("result of task %s not taken: %s", entry.task_id, refusal.code)
        self.journal.acknowledge(entry.task_id)

    # Work

    async def _lease(self) -> LeaseAnswer:
        open_tasks = {*self._running, *(entry.task_id for entry in self.journal.undelivered())}
        request = LeaseRequest(
            boot_id=self.backend.boot_id(),
            max=max(0, self.pace.most_tasks - len(self._running)) if self.backend.ready else 0,
            capabilities=tuple(sorted(self.backend.capabilities)),
            running=tuple(sorted(open_tasks))[:64],
        )
        return await self.control.lease(request)

    async def _take(self, signed: SignedTask, identity: Identity) -> None:
        try:
            verified = await self._verified(signed, identity)
            entry = self.journal.entry(verified.envelope.task_id)
            if entry is not None and entry.epoch == verified.envelope.lease_epoch:
                # The same lease twice. Its work is under way, or its result is being delivered.
                return
            if verified.envelope.kind is not TaskKind.DISCOVER:
                report = self.backend.topology()
                self._shares.learn(report)
                verify_devices(verified, report, await self.backend.observe(), self._shares)
                await self.backend.take(signed)
        except TaskRefused as refusal:
            passing = refusal.code in _WRONG_MOMENT
            await self._refuse(signed, refusal.code, refusal.detail, retryable=passing)
            return
        except BackendError as error:
            await self._refuse(signed, error.code, error.detail, retryable=error.retryable)
            return
        self._begin(verified)

    async def _verified(self, signed: SignedTask, identity: Identity) -> VerifiedTask:
        """Raises TaskRefused. The control plane's key may be a new one: then it is asked for.

        Raises Unreachable or Refused where that could not be asked now: the lease lapses, and the
        task comes again.
        """
        try:
            return verify_task(signed, self._facts(identity))
        except TaskRefused as refusal:
            if refusal.code is not RefusalCode.SIGNATURE_INVALID:
                raise
            fresh = await self.membership.renewed_key(identity)
            if fresh.control_public_key == identity.control_public_key:
                raise
            return verify_task(signed, self._facts(fresh))

    def _facts(self, identity: Identity) -> Facts:
        return Facts(
            identity=identity,
            boot_id=self.backend.boot_id(),
            server_now=self.control.server_now(),
            capabilities=self.backend.capabilities,
            journal=self.journal,
            former_keys=self.home.former_keys(self.control.server_now()),
        )

    async def _refuse(self, signed: SignedTask, code: str, detail: str, *, retryable: bool) -> None:
        """Say no. Nothing is journaled: a refused task has touched nothing."""
        address = reply_address(signed.envelope)
        log.warning("task refused: %s [%s]", detail, code)
        if address is None:
            return
        task_id, epoch = address
        body = FailRequest(
            lease_epoch=epoch,
            boot_id=self.backend.boot_id(),
            code=str(code),
            detail=detail[:2000],
            retryable=retryable,
        )
        with contextlib.suppress(Refused):
            await self.control.deliver(task_id, "fail", body.to_json())

    async def _end(self, load: Unwanted) -> None:
        """End the load of a burn-in that was stopped, and say so once it is over.

        It may be under way here, or have outlived the agent that began it. Nothing is journaled: it
        is asked again until the control plane has heard that it is over.
        """
        running = self._running.get(load.task_id)
        if running is not None:
            running.stop.set()
            return
        try:
            await self.backend.end_burn_in(load)
        except BackendError as error:
            log.warning("the load of task %s has not ended: %s", load.task_id, error)
            return
        body = FailRequest(
            lease_epoch=load.lease_epoch,
            boot_id=self.backend.boot_id(),
            code=FailureCode.CANCELLED,
            detail="its load has ended",
            retryable=False,
        )
        with contextlib.suppress(Refused):
            await self.control.deliver(load.task_id, "fail", body.to_json())

    def _begin(self, verified: VerifiedTask) -> None:
        envelope = verified.envelope
        self.journal.accept(
            Entry(
                task_id=envelope.task_id,
                epoch=envelope.lease_epoch,
                kind=envelope.kind,
                allocation_id=verified.allocation_id,
                boot_id=self.backend.boot_id(),
            )
        )
        if envelope.kind in RELEASE_KINDS:
            self._stop_making(verified.allocation_id)
        older = self._running.pop(envelope.task_id, None)
        if older is not None:
            older.stop.set()
        work = self._running[envelope.task_id] = _Running(verified)
        work.job = asyncio.create_task(self._work(work))

    def _stop_making(self, allocation_id: str | None) -> None:
        for work in self._running.values():
            same = work.verified.allocation_id == allocation_id
            if same and work.verified.envelope.kind in PROVISION_KINDS:
                work.stop.set()

    async def _work(self, work: _Running) -> None:
        task_id = work.verified.envelope.task_id
        try:
            async with self._turn(work.verified.allocation_id or task_id):
                outcome = await self._outcome(work)
            if outcome is not None and self._is_current(work):
                self.journal.finish(task_id, outcome)
        except HostRebooted:
            self._forget(work)
            await self._reboot()
            return
        except OSError as error:
            # It stays open in the journal; the control plane asks for it again.
            log.error("task %s could not be written down: %s", task_id, told(error))
            return
        finally:
            self._forget(work)
        entry = self.journal.entry(task_id)
        if entry is not None and entry.outcome is not None and not entry.acknowledged:
            with contextlib.suppress(Unreachable, Refused):
                await self._deliver_once(entry)
        self._wake.set()

    async def _outcome(self, work: _Running) -> Outcome | None:
        verified, envelope = work.verified, work.verified.envelope
        releases = envelope.kind in RELEASE_KINDS
        keeper = LeaseKeeper(
            self.control,
            self.clock,
            verified,
            work.stop,
            self.pace.heartbeat_every_s,
            cancellable=not releases,
        )
        if releases and verified.allocation_id is not None:
            # From here on this allocation must not come into being here any more.
            self.journal.mark_released(verified.allocation_id)
        elif verified.allocation_id and self.journal.released(verified.allocation_id):
            boot_id = self.backend.boot_id()
            detail = "the allocation was released while this task waited"
            return failure(verified, boot_id, FailureCode.CANCELLED, detail, retryable=False)
        try:
            outcome = await carry_out(verified, self.backend, keeper, self.home.key)
            if envelope.kind is TaskKind.DISCOVER:
                # Before anybody can approve it.
                self._shares.learn(self.backend.topology())
            return outcome
        except LeaseLost:
            log.warning("lease of task %s lost", envelope.task_id)
            self.journal.acknowledge(envelope.task_id)
            return None

    def _is_current(self, work: _Running) -> bool:
        return self._running.get(work.verified.envelope.task_id) is work

    def _forget(self, work: _Running) -> None:
        if self._is_current(work):
            del self._running[work.verified.envelope.task_id]

    def _turn(self, key: str) -> asyncio.Lock:
        """Tasks of one allocation run one after the other."""
        idle = [name for name, lock in self._allocation_turns.items() if not lock.locked()]
        for name in idle:
            if name != key:
                del self._allocation_turns[name]
        return self._allocation_turns.setdefault(key, asyncio.Lock())

    # Starting again

    def _read_journal(self) -> Journal:
        """Close what was begun and not finished; nothing of it is resumed."""
        journal = Journal(self.home.journal_path)
        boot_id = self.backend.boot_id()
        for entry in journal.unfinished():
            what = "the host rebooted" if entry.boot_id != boot_id else "the agent was restarted"
            body = FailRequest(
                lease_epoch=entry.epoch,
                boot_id=boot_id,
                code=FailureCode.INTERRUPTED,
                detail=f"{what} during {entry.kind}; see the observed report for what is there",
                retryable=True,
            )
            try:
                journal.finish(entry.task_id, Outcome("fail", body.to_json()))
            except OSError as error:
                # A host whose disk is full must still be heard; the lease runs out by itself.
                log.warning("the end of task %s is not journaled: %s", entry.task_id, told(error))
        return journal

    async def _reboot(self) -> None:
        log.warning("%s rebooted", self.backend.hostname)
        await self._drop_work()
        self.journal = self._read_journal()
        self._wake.set()

    async def _drop_work(self) -> None:
        me = asyncio.current_task()
        begun = [work.job for work in self._running.values() if work.job is not None]
        jobs = [job for job in begun if job is not me]
        self._running.clear()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    # Waiting

    def _refused(self, refusal: Refused) -> float:
        if self.membership.start_over(refusal):
            return self._jittered(self.pace.token_wait_s)
        if refusal.retry_after is not None:
            self._failures += 1
            # Whoever says "now" is asked soon, and not without a pause.
            wait = max(refusal.retry_after, self.pace.backoff_first_s)
            return min(wait, 300.0) * self._chance.uniform(1, 1.5)
        return self._backoff(f"refused: {refusal}")

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        waits = [
            asyncio.ensure_future(stop.wait()),
            asyncio.ensure_future(self._wake.wait()),
            asyncio.ensure_future(self.clock.sleep(seconds)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _say_once(self, what: str, why: object) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning("%s: %s", what, why)

    def _jittered(self, seconds: float) -> float:
        return seconds * self._chance.uniform(0.8, 1.2)

    def _backoff(self, why: str) -> float:
        """Full jitter, so that a fleet does not come back all at once."""
        self._failures += 1
        if self._failures in (1, 10, 100):
            log.warning("%s: %s (%s in a row)", self.backend.hostname, why, self._failures)
        top = min(
            self.pace.backoff_most_s, self.pace.backoff_first_s * 2 ** min(self._failures, 10)
        )
        return self._chance.uniform(self.pace.backoff_first_s / 2, top)
