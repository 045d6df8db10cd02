"""When does the control plane hear what is on this host?"""

from __future__ import annotations

import logging

from nodeagent.backend import Backend, Observation
from nodeagent.client import ControlPlane, Refused
from nodeagent.clock import Clock
from nodeagent.identity import AgentHome
from nodeagent.protocol import ObservedReport

log = logging.getLogger("nodeagent")


class Reporter:
    """Reports at once when something changed, and otherwise every `every_s` seconds."""

    def __init__(
        self,
        home: AgentHome,
        backend: Backend,
        control: ControlPlane,
        clock: Clock,
        every_s: float,
    ) -> None:
        self._home = home
        self._backend = backend
        self._control = control
        self._clock = clock
        self._every_s = every_s
        self._told: tuple[str, Observation] | None = None
        self._told_at = float("-inf")

    async def report_if_due(self) -> None:
        """Look, and tell when it is due. Raises Unreachable, or Refused when work should wait."""
        seen, boot_id = await self._backend.observe(), self._backend.boot_id()
        # A clock that was set back must not keep the node silent.
        age = self._clock.now() - self._told_at
        if self._told == (boot_id, seen) and 0 <= age < self._every_s:
            return
        report = ObservedReport(
            boot_id=boot_id,
            seq=self._home.next_report(boot_id),
            at=self._control.server_now(),
            vms=seen.vms,
            devices=seen.devices,
            conditions=seen.conditions,
            intended_use=seen.intended_use,
            parts=tuple(sorted(self._backend.part_kinds)),
        )
        try:
            await self._control.observed(report)
        except Refused as refusal:
            if refusal.passing or refusal.status in (401, 403):
                raise
            if refusal.code == "observed_stale":
                # After a boot the first lease tells the new boot id; then a report is taken. Where
                # counters were lost, later ones have been taken already.
                self._home.skip_reports(boot_id)
                return
            # Work must not stop because a report is not understood; the next one is on time.
            log.warning("report of %s not taken: %s", self._backend.hostname, refusal.code)
        self._told, self._told_at = (boot_id, seen), self._clock.now()
