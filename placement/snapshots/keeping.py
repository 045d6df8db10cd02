"""What was read a moment ago and will do for now?"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from gpuaas.kernel import clock

V = TypeVar("V")


def _always(_: object) -> bool:
    return True


class Kept(Generic[V]):
    """Values of one process by key, each good for some seconds; beyond ``most`` the oldest goes."""

    def __init__(self, *, seconds: float, most: int = 256) -> None:
        self._seconds, self._most = seconds, most
        self._rows: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def of(self, key: Hashable, read: Callable[[], V], *, keep: Callable[[V], bool] = _always) -> V:
        """The value that is kept, or what ``read`` gives, kept from now where ``keep`` says so."""
        now = clock.monotonic()
        found = self._rows.get(key)
        if found is not None and now - found[0] < self._seconds:
            return found[1]
        value = read()
        if keep(value):
            self._rows[key] = (now, value)
            if len(self._rows) > self._most:
                self._rows.popitem(last=False)
        else:
            self._rows.pop(key, None)
        return value

    def clear(self) -> None:
        """Read everything anew."""
        self._rows.clear()
