"""What do the kernel's tests share?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from gpuaas.kernel import clock, workflow
from gpuaas.kernel.workflow import Definition, Step
from gpuaas.kernel.workflow import definitions as known


@pytest.fixture
def at() -> Iterator[clock.FakeClock]:
    with clock.use(clock.FakeClock(datetime(2030, 1, 1, tzinfo=UTC))) as fake:
        assert isinstance(fake, clock.FakeClock)
        yield fake


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr(known, "_definitions", {})

    def make(*steps: Step, deadline_s: float = 3600, **more: object) -> str:
        workflow.register(Definition("test", steps, deadline_s, **more))  # type: ignore[arg-type]  # passed through
        return "test"

    return make
