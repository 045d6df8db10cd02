"""Which errors does the driver tell, as they happen?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from nodeagent.host.nvml.device import address, plain_text
from nodeagent.host.nvml.library import Nvml, NvmlSession, NvmlUnavailable

_TIMEOUT = 10
_WAIT_MS = 500


def watch_xids(
    nvml: Nvml, tell: Callable[[str | None, int], None], going_on: Callable[[], bool]
) -> None:
    """Tell each critical error (device, XID) until NVML is wanted back or it is told to end.

    Raises NvmlUnavailable. Everything that was opened is closed when this returns.
    """
    with nvml.session() as session:
        names = _names(session)
        events = session.ask(pynvml.nvmlEventSetCreate).value
        if events is None:
            raise NvmlUnavailable("no_events")
        try:
            for number in range(session.count()):
                handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, number).value
                if handle is not None:
                    wanted = pynvml.nvmlEventTypeXidCriticalError
                    session.ask(pynvml.nvmlDeviceRegisterEvents, handle, wanted, events)
            while going_on() and not nvml.wanted:
                _take_one(events, session, names, tell)
        finally:
            session.ask(pynvml.nvmlEventSetFree, events)


def _take_one(
    events: Any,
    session: NvmlSession,
    names: dict[int, str],
    tell: Callable[[str | None, int], None],
) -> None:
    try:
        event = pynvml.nvmlEventSetWait_v2(events, _WAIT_MS)
    except pynvml.NVMLError as error:
        if int(error.value) == _TIMEOUT:
            return
        # A lost GPU ends the watch; the sampler says which, and a new watch leaves it out.
        raise NvmlUnavailable("events_ended") from error
    number = session.ask(pynvml.nvmlDeviceGetIndex, event.device).value
    if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
        tell(names.get(-1 if number is None else int(number)), int(event.eventData))


def _names(session: NvmlSession) -> dict[int, str]:
    """UUIDs, else addresses, by number: read before anything is lost."""
    found: dict[int, str] = {}
    for number in range(session.count()):
        handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, number).value
        if handle is None:
            continue
        name = plain_text(session.ask(pynvml.nvmlDeviceGetUUID, handle)).value
        name = name or address(session.ask(pynvml.nvmlDeviceGetPciInfo, handle)).value
        if name is not None:
            found[number] = name[:120]
    return found
