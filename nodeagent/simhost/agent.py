"""How is the real agent put on a simulated host?"""

from __future__ import annotations

import random
from pathlib import Path

import httpx

from nodeagent.client import ControlPlane
from nodeagent.clock import Clock
from nodeagent.daemon import Agent, Pace
from nodeagent.identity import AgentHome
from nodeagent.journal import Entry
from nodeagent.simhost.backend import SimBackend
from nodeagent.simhost.network import FaultyTransport
from nodeagent.simhost.telemetry import SimTelemetry

AGENT_FOLDER = "agent"
TOKEN_FILE = "join-token"


class SimAgent(Agent):
    """The real agent; only results are sent twice where the fault menu says so."""

    backend: SimBackend

    async def deliver(self, entry: Entry) -> None:
        """Deliver, and once more as a message of its own."""
        await super().deliver(entry)
        if self.backend.menu.take_count("duplicate"):
            await super().deliver(entry)


def make_agent(
    folder: Path,
    server: str,
    pool: httpx.AsyncBaseTransport,
    clock: Clock,
    *,
    step_s: float = 0.05,
    pace: Pace | None = None,
    chance: random.Random | None = None,
) -> SimAgent:
    """An agent for the simulated host in that folder, speaking real HTTP through the pool."""
    backend = SimBackend(folder, clock, step_s=step_s)
    home = AgentHome(folder / AGENT_FOLDER, token_drops=(folder / TOKEN_FILE,))
    http = httpx.AsyncClient(
        transport=FaultyTransport(pool, backend.menu), timeout=30.0, trust_env=False
    )
    control = ControlPlane(http, server, home, clock)
    telemetry = SimTelemetry(backend, clock)
    return SimAgent(home, backend, control, clock, pace=pace, chance=chance, telemetry=telemetry)
