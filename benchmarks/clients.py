"""How do many clients act at the same moment?  As processes that begin together."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.config import CHECKOUT


@dataclass(frozen=True)
class Outcome:
    """What all clients did in one stretch of time."""

    count: int
    refused: int
    times: tuple[float, ...]
    seconds: float

    @property
    def per_s(self) -> float:
        """Claims a second over all clients."""
        return self.count / self.seconds


class Clients:
    """A set of client processes on one database."""

    def __init__(
        self, count: int, env: Mapping[str, str], module: str = "benchmarks.client"
    ) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", module],
                env=dict(env),
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        for process in self._processes:
            if self._line(process) != "ready\n":
                raise RuntimeError("a client process did not start")

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline()

    def act(self, way: str, *, seconds: float, clients: int | None = None, **ask: Any) -> Outcome:
        """Let the first ``clients`` (all) of them go a way for some seconds; what they did.

        ``own`` gives each client values of its own, in turn.
        """
        chosen = self._processes[: clients or len(self._processes)]
        own = ask.pop("own", None) or [{}]
        begin = time.monotonic() + 0.05
        for i, process in enumerate(chosen):
            assert process.stdin is not None
            order = {"way": way, "begin": begin, "seconds": seconds, **ask, **own[i % len(own)]}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        answers = []
        for process in chosen:
            line = self._line(process)
            if not line:
                raise RuntimeError(f"a client ended while it went the way {way!r}")
            answers.append(json.loads(line))
        times = tuple(t for answer in answers for t in answer["times"])
        return Outcome(
            count=sum(answer["count"] for answer in answers),
            refused=sum(answer["refused"] for answer in answers),
            times=times,
            seconds=max(time.monotonic() - begin, 1e-9),
        )

    def close(self) -> None:
        """Let them end."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait(10.0)
