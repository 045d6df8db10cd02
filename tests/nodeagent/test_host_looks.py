"""Does a look at a real host keep the agent's rounds, and so its leases, from going on?"""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.host.backend import HostBackend
from nodeagent.host.helper.client import HelperAway
from nodeagent.host.nvml import Nvml

PATIENCE_S = 20.0


class Looks:
    """Looks that take until they are let, and how many are under way at once."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.begun = threading.Semaphore(0)
        self.now = self.most = self.number = 0

    def __call__(self) -> Any:
        """One look; gives its number."""
        self.now += 1
        self.number += 1
        mine = self.number
        self.most = max(self.most, self.now)
        self.begun.release()
        assert self.let.wait(PATIENCE_S)
        self.now -= 1
        return mine


def a_backend(look: Any) -> HostBackend:
    """A backend that looks so."""
    config = cast(Any, SimpleNamespace(socket_path=None))
    backend = HostBackend(config, cast(Any, None), cast(Any, None), Nvml())
    backend._observe = look  # type: ignore[method-assign]  # as slow as the test says
    return backend


async def begun(looks: Looks) -> None:
    """Wait until one more look is under way, while the loop goes on."""
    assert await asyncio.to_thread(looks.begun.acquire, timeout=PATIENCE_S)


def test_the_loop_goes_on_while_a_driver_takes_its_time() -> None:
    looks = Looks()

    async def story() -> Any:
        looking = asyncio.create_task(a_backend(looks).observe())
        await begun(looks)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not looking.done()
        looks.let.set()
        return await looking

    assert asyncio.run(story()) == 1


def test_no_two_looks_are_under_way_at_once_and_each_gets_one_that_began_after_it_asked() -> None:
    looks = Looks()

    async def story() -> list[Any]:
        backend = a_backend(looks)
        left = asyncio.create_task(backend.observe())
        await begun(looks)
        # Whoever wanted the first goes; its thread does not.
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        others = [asyncio.create_task(backend.observe()) for _ in range(2)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert (looks.number, looks.now) == (1, 1)
        looks.let.set()
        return list(await asyncio.gather(*others))

    assert asyncio.run(story()) == [2, 3]
    assert looks.most == 1


def test_what_was_seen_before_a_discovery_is_not_told_after_it() -> None:
    looks = Looks()

    async def story() -> Any:
        backend = a_backend(looks)
        backend._topology = cast(Any, "before")
        looking = asyncio.create_task(backend.observe())
        await begun(looks)
        backend._topology = cast(Any, "after")
        looks.let.set()
        return await looking

    assert asyncio.run(story()) == 2


def test_a_look_that_tells_nothing_leaves_the_next_one_its_turn() -> None:
    answers: list[Any] = [HelperAway("nobody is there"), "seen"]

    def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def story() -> Any:
        backend = a_backend(look)
        with pytest.raises(HelperAway):
            await backend.observe()
        return await backend.observe()

    assert asyncio.run(story()) == "seen"
