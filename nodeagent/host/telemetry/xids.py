"""Which errors does the driver tell, as they happen?"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from nodeagent.host.nvml.device import address, uuid_in
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
        events = session.ask(pynvml.nvmlEventSetCreate).value
        if events is None:
            raise NvmlUnavailable("no_events")
        try:
            names: dict[int | None, str | None] = {}
            for number in range(session.count()):
                handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, number).value
                if handle is not None:
                    names[_mark(handle)] = _name(session, handle)
                    wanted = pynvml.nvmlEventTypeXidCriticalError
                    session.ask(pynvml.nvmlDeviceRegisterEvents, handle, wanted, events)
            while going_on() and not nvml.wanted:
                _take_one(events, names, tell)
        finally:
            session.ask(pynvml.nvmlEventSetFree, events)


def _take_one(
    events: Any,
    names: dict[int | None, str | None],
    tell: Callable[[str | None, int], None],
) -> None:
    try:
        event = pynvml.nvmlEventSetWait_v2(events, _WAIT_MS)
    except pynvml.NVMLError as error:
        if int(error.value) == _TIMEOUT:
            return
        # A lost GPU ends the watch; the sampler says which, and a new watch leaves it out.
        raise NvmlUnavailable("events_ended") from error
    if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
        tell(names.get(_mark(event.device)), int(event.eventData))


def _mark(handle: Any) -> int | None:
    """What a handle is told by: a GPU that fell off the bus answers no question any more."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def _name(session: NvmlSession, handle: Any) -> str | None:
    """Its UUID, else its address: asked before anything is lost."""
    name = uuid_in(session.ask(pynvml.nvmlDeviceGetUUID, handle)).value
    name = name or address(session.ask(pynvml.nvmlDeviceGetPciInfo, handle)).value
    return name[:120] if name else None
