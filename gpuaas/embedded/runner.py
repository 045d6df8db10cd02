"""How are the parts kept running: started side by side, restarted, stopped together?

One thread, one loop. It starts what is not waiting for another part, asks each whether it is
ready, starts again what died (with a bounded back-off), and stops everything at a signal. A
part may be held for a while, and let go again: both may be asked for from another thread.
"""

import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType

from gpuaas.embedded import logs
from gpuaas.embedded.parts import Part, Program, Service

FIRST_DELAY_S, LONGEST_DELAY_S = 0.25, 30.0
# A part that has run this long did not fail because of how it was started.
STEADY_S = 30.0
HOPELESS_FAILURES = 6
QUICK_S, CALM_S, HOUSEKEEPING_S = 0.03, 0.2, 5.0


class RunnerError(Exception):
    """A part cannot be started; the message has its last words."""


class State(StrEnum):
    """Of a part, as the runner sees it."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    HELD = "held"
    STOPPED = "stopped"


@dataclass
class Slot:
    """A part and what has become of it."""

    part: Part
    state: State = State.WAITING
    reached: bool = False
    begun: bool = False
    """Whether its process was told to begin."""
    failures: int = 0
    restarts: int = 0
    since: float = 0.0
    not_before: float = 0.0
    hold: bool = False
    asked_at: float | None = None
    """When it was asked to stop, while it is being held."""


class Runner:
    """Keeps parts. Called from the thread that made it, but for hold, let_go and finish."""

    def __init__(
        self,
        parts: Iterable[Part],
        *,
        say: Callable[[str], None],
        on_change: Callable[["Runner"], None] = lambda runner: None,
    ) -> None:
        self.slots = {part.name: Slot(part) for part in parts}
        self.say = say
        self.on_change = on_change
        self.began = time.monotonic()
        self._signals = 0
        self._housekept = 0.0

    @property
    def healthy(self) -> bool:
        """Whether every part is up (or done)."""
        return all(slot.state in {State.READY, State.DONE} for slot in self.slots.values())

    def describe(self) -> dict[str, dict[str, object]]:
        """State, process number and restarts of each part."""
        return {
            name: {"state": slot.state.value, "pid": slot.part.pid, "restarts": slot.restarts}
            for name, slot in self.slots.items()
        }

    def run(self, on_healthy: Callable[[], None] = lambda: None) -> None:
        """Keeps the parts until SIGINT, SIGTERM or SIGHUP. Raises RunnerError when hopeless."""
        watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {signum: signal.signal(signum, self._note_signal) for signum in watched}
        told = False
        try:
            while not self._signals:
                self.tick()
                if self.healthy and not told:
                    told = True
                    on_healthy()
                time.sleep(CALM_S if self.healthy else QUICK_S)
        finally:
            self.stop()
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def hold(self, name: str) -> None:
        """Stops a part and keeps it stopped. Its state becomes HELD when it is."""
        self.slots[name].hold = True

    def let_go(self, name: str) -> None:
        """Starts a held part again."""
        self.slots[name].hold = False

    def finish(self) -> None:
        """Ends ``run``, as a signal does."""
        self._signals += 1

    def tick(self) -> None:
        """One look at every part."""
        now = time.monotonic()
        for slot in self.slots.values():
            if slot.hold:
                self._keep_held(slot, now)
            elif slot.state is State.HELD:
                slot.asked_at = None
                self._move(slot, State.WAITING)
            elif slot.state is State.WAITING:
                self._start_if_due(slot, now)
            elif slot.state in {State.STARTING, State.READY}:
                self._look_at(slot, now)
        if now - self._housekept >= HOUSEKEEPING_S:
            self._housekept = now
            for slot in self.slots.values():
                log = _log_of(slot.part)
                if log is not None:
                    logs.rotate(log)

    def stop(self) -> None:
        """Stops everything: programs first, then the services they use."""
        groups: tuple[list[Slot], list[Slot]] = ([], [])
        for slot in self.slots.values():
            groups[isinstance(slot.part, Service)].append(slot)
        for group in groups:
            self._stop_group([slot for slot in group if slot.part.exit_code() is None])
            for slot in group:
                if slot.part.pid:
                    slot.part.kill()
                slot.state = State.STOPPED
        self.on_change(self)

    def _stop_group(self, running: list[Slot]) -> None:
        running = [slot for slot in running if slot.part.pid]
        for slot in running:
            slot.part.ask_to_stop()
        before = self._signals
        deadline = time.monotonic() + max((slot.part.grace_s for slot in running), default=0.0)
        while any(slot.part.exit_code() is None for slot in running):
            if time.monotonic() >= deadline or self._signals > before:
                break
            time.sleep(QUICK_S)

    def _start_if_due(self, slot: Slot, now: float) -> None:
        if now < slot.not_before or not (slot.part.ahead or self._may_begin(slot)):
            return
        slot.since = now
        slot.begun = not slot.part.ahead
        slot.part.launch()
        self._move(slot, State.STARTING)

    def _may_begin(self, slot: Slot) -> bool:
        return all(self.slots[name].reached for name in slot.part.after if name in self.slots)

    def _keep_held(self, slot: Slot, now: float) -> None:
        part = slot.part
        if slot.state is State.HELD:
            return
        if not part.pid or part.exit_code() is not None:
            part.kill()  # what it started itself
            self._move(slot, State.HELD)
            self.say(f"{part.name}: stopped, until it is let go")
        elif slot.asked_at is None:
            slot.asked_at = now
            part.ask_to_stop()
        elif now - slot.asked_at > part.grace_s:
            part.kill()

    def _look_at(self, slot: Slot, now: float) -> None:
        part = slot.part
        code = part.exit_code()
        if code is not None and not (part.once and code == 0):
            self._failed(slot, now, f"ended with {_exit_words(code)}")
        elif not slot.begun:
            if self._may_begin(slot):
                slot.since, slot.begun = now, True
                part.begin()
        elif slot.state is State.STARTING:
            if part.ready():
                slot.reached = True
                took = time.monotonic() - slot.since
                self._move(slot, State.DONE if part.once else State.READY)
                self.say(f"{part.name}: {'done' if part.once else 'ready'} ({took:.1f} s)")
            elif now - slot.since > part.patience_s:
                self._failed(slot, now, f"was not ready after {part.patience_s:.0f} s")

    def _failed(self, slot: Slot, now: float, how: str) -> None:
        part = slot.part
        words = part.last_words()
        part.kill()  # whatever it left running would hold its port or its files
        slot.failures = 1 if now - slot.since > STEADY_S else slot.failures + 1
        if not slot.reached and (part.once or slot.failures >= HOPELESS_FAILURES):
            raise RunnerError(f"{part.name} {how}\n{words}")
        delay = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (slot.failures - 1))
        slot.not_before = now + delay
        slot.restarts += 1
        self._move(slot, State.WAITING)
        self.say(f"{part.name}: {how}; starting it again in {delay:.1f} s")

    def _move(self, slot: Slot, state: State) -> None:
        slot.state = state
        self.on_change(self)

    def _note_signal(self, signum: int, frame: FrameType | None) -> None:
        self._signals += 1


def _exit_words(code: int) -> str:
    if code >= 0:
        return f"code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _log_of(part: Part) -> Path | None:
    if isinstance(part, Program):
        return part.log
    return part.server.log if isinstance(part, Service) else None
