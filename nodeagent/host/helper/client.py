"""How does the agent ask the helper, without its own rounds standing still meanwhile?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError, HostUnknown, Progress
from nodeagent.host.discovery import RootSight
from nodeagent.host.helper.wire import MOST_BYTES, Belief, Held, Inspection, Survey, Trust, Verb
from nodeagent.protocol import FailureCode, RefusalCode, SignedTask, WireError, load_json

_INSPECT_S = 10.0
_BEAT_S = 1.0


class HelperAway(HostUnknown):
    """The helper does not answer: what is on the host is unknown."""


class Helper:
    """The helper behind its socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def inspect(self) -> Inspection:
        """What is on the host now. Raises HelperAway."""
        try:
            return Inspection.from_json(self._told(Verb.INSPECT))
        except (WireError, BackendError) as error:
            raise HelperAway(f"the helper does not answer: {error}") from error

    def settled(self) -> bool:
        """Whether it is there, and every machine of before the host's restart has had its turn."""
        try:
            return not self.inspect().returning
        except HelperAway:
            return False

    def trust(self) -> Trust:
        """Whether the helper would take a task now. Raises HelperAway."""
        try:
            return Trust.from_json(self._told(Verb.TRUST))
        except BackendError as error:
            return Trust(False, _older(error).detail)
        except WireError as error:
            raise HelperAway(f"the helper does not answer: {error}") from error

    def belief(self) -> Belief | None:
        """Whom the helper believes; None where it is too old to say. Raises HelperAway."""
        try:
            return Belief.from_json(self._told(Verb.BELIEF))
        except BackendError as error:
            if _older(error) is not error:
                return None
            raise HelperAway(f"the helper does not answer: {error}") from error
        except WireError as error:
            raise HelperAway(f"the helper does not answer: {error}") from error

    def survey(self) -> RootSight:
        """What only root sees. Never raises: who does not answer is why it is unknown."""
        try:
            told = Survey.from_json(self._told(Verb.SURVEY))
        except BackendError as error:
            return RootSight(unreadable=_older(error).detail)
        except HelperAway as error:
            return RootSight(unreadable=str(error), away=True)
        except WireError as error:
            return RootSight(unreadable=f"the helper does not answer: {error}")
        serials = {one.pci: one.fact() for one in told.serials}
        return RootSight(frozenset(told.names), frozenset(told.numbers), told.unreadable, serials)

    def holders(self) -> Held | None:
        """Who has GPUs open; None where nobody says. Never raises: it is a look among others."""
        try:
            return Held.from_json(self._told(Verb.HOLDERS))
        except (BackendError, WireError, HelperAway):
            return None

    def _told(self, verb: Verb) -> dict[str, Any]:
        """A short answer, waited for. Raises HelperAway, WireError or BackendError."""
        try:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.settimeout(_INSPECT_S)
                channel.connect(str(self._path))
                channel.sendall(_line(verb))
                got = b""
                while not got.endswith(b"\n"):
                    part = channel.recv(65_536)
                    if not part or len(got) > MOST_BYTES:
                        raise HelperAway("the helper broke off")
                    got += part
        except OSError as error:
            raise HelperAway(f"the helper does not answer: {error}") from error
        return _done(got)

    async def take(self, task: SignedTask) -> None:
        """Have a task checked and written down, before anything of it is done.

        Raises BackendError: by which name the helper refuses it.
        """
        try:
            async with asyncio.timeout(_INSPECT_S):
                await self._ask(_line(Verb.TAKE, task=task.to_json()))
        except TimeoutError as error:
            raise _away(error) from error
        except BackendError as error:
            raise _older(error) from error

    async def do(
        self, verb: Verb, step: str, percent: int, progress: Progress, /, **arguments: Any
    ) -> dict[str, Any]:
        """Have something done, telling how it goes before, every second while, and after.

        Raises BackendError; what `progress` raises goes through, and the helper then finishes its
        verb by itself.
        """
        await progress(step, percent)
        asking = asyncio.create_task(self._ask(_line(verb, **arguments)))
        try:
            while not (await asyncio.wait([asking], timeout=_BEAT_S))[0]:
                await progress(step, percent)
        finally:
            if not asking.done():
                asking.cancel()
        done = asking.result()
        await progress(step, percent + 1)
        return done

    async def ask(self, verb: Verb, /, **arguments: Any) -> dict[str, Any]:
        """Have something short done. Raises BackendError."""
        return await self._ask(_line(verb, **arguments))

    async def _ask(self, line: bytes) -> dict[str, Any]:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path), limit=MOST_BYTES)
        except OSError as error:
            raise _away(error) from error
        try:
            writer.write(line)
            await writer.drain()
            return _done(await reader.readuntil(b"\n"))
        except (OSError, EOFError, asyncio.LimitOverrunError, WireError) as error:
            raise _away(error) from error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _line(verb: Verb, **arguments: Any) -> bytes:
    return json.dumps({"verb": verb.value, **arguments}, separators=(",", ":")).encode() + b"\n"


def _done(answer: bytes) -> dict[str, Any]:
    """What was done. Raises BackendError with the helper's problem, or WireError."""
    raw = load_json(answer, max_bytes=MOST_BYTES)
    problem = raw.get("problem") if isinstance(raw, dict) else None
    if isinstance(problem, dict):
        raise BackendError(
            str(problem.get("code", FailureCode.BACKEND_ERROR)),
            str(problem.get("detail", "")),
            retryable=problem.get("retryable") is True,
        )
    done = raw.get("done") if isinstance(raw, dict) else None
    if not isinstance(done, dict):
        raise WireError("/done", "missing", "the helper gave no answer")
    return done


def _older(error: BackendError) -> BackendError:
    """A helper that does not know a verb was not restarted after the agent was upgraded."""
    if error.code != "request_invalid" or not error.detail.startswith("/verb"):
        return error
    detail = "the helper is older than its agent: restart gpuaas-helper"
    return BackendError(RefusalCode.HELPER_TOO_OLD, detail, retryable=True)


def _away(error: Exception) -> BackendError:
    return BackendError(
        "helper_away", f"the privileged helper broke off: {type(error).__name__}", retryable=True
    )
