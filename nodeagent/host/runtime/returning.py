"""Which machines ran before the host's own restart, and do they run again?

They come back one after the other, in the order of their records, beside whatever else the helper
is asked: each takes as long as its devices, its disk and its memory do. Until its turn is over
nothing else is done for a machine's claim. One that cannot be started stays on record and is told
of with the reason, until it runs after all or is released; the next helper tries it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from nodeagent.backend import BackendError
from nodeagent.host.records import SLICE, Records, Tenancy
from nodeagent.host.runtime.kvm import Probe
from nodeagent.host.runtime.machines import Machines
from nodeagent.protocol import FailureCode

log = logging.getLogger("nodeagent.helper")
RETURNING = "machines_returning"


class Returning:
    """The machines of before this boot. What waits is known before anything is asked for."""

    def __init__(self, records: Records, machines: Machines, runtime: Probe, boot: str) -> None:
        self._records = records
        self._machines = machines
        self._runtime = runtime
        self._boot = boot
        self._lock = threading.Lock()
        self._waiting = [one.claim for one in records.all() if self._slept(one)]
        self._failed: dict[str, str] = {}

    @property
    def waiting(self) -> tuple[str, ...]:
        """The claims whose machines have not had their turn yet."""
        with self._lock:
            return tuple(self._waiting)

    def failed(self, claim: str) -> str:
        """Why the claim's machine could not be started again; '' where it could, or is to come."""
        with self._lock:
            return self._failed.get(claim, "")

    def refuse_waiting(self, claim: str) -> None:
        """Nothing is done for a claim while its machine is to come back. Raises BackendError."""
        waiting = self.waiting
        if claim in waiting:
            detail = (
                "the host has restarted and this machine is started again: "
                f"{waiting.index(claim)} are before it"
            )
            raise BackendError(RETURNING, detail, retryable=True)

    def run(self, one_at_a_time: Callable[[str], AbstractContextManager[None]]) -> None:
        """Start each again. one_at_a_time: whoever has a claim's turn is alone with it."""
        for claim in self.waiting:
            with one_at_a_time(claim):
                why = self._started(claim)
                with self._lock:
                    self._waiting.remove(claim)
                    if why:
                        self._failed[claim] = why
            if why:
                log.warning("machine of %s not started again: %s", claim, why)

    def _slept(self, tenancy: Tenancy) -> bool:
        ran = tenancy.kind == SLICE and tenancy.present and tenancy.started
        return ran and tenancy.boot != self._boot

    def _started(self, claim: str) -> str:
        """Why it was not, '' where it was. Whatever is wrong with one stops none of the others."""
        try:
            tenancy = self._records.get(claim)
            if tenancy is None or not self._slept(tenancy):
                return ""
            if not self._runtime.works:
                code = FailureCode.PREREQUISITE_MISSING
                return f"machines cannot run on this host: {self._runtime.detail} [{code}]"
            made = self._machines.prepare(tenancy, self._records.put)
            if made != tenancy:
                # Before it starts: what its network was made of is removed by this record.
                self._records.put(made)
            self._machines.start(made)
            self._records.put(replace(made, boot=self._boot, rebooted=True))
        except BackendError as error:
            return str(error)
        except Exception as error:
            log.exception("the machine of %s", claim)
            return f"the helper's code raised {type(error).__name__} [backend_error]"
        return ""
