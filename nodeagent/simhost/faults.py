"""Which faults is a simulated host told to show? A file in its folder, changed while it runs.

| fault | value | effect |
|---|---|---|
| slow_s | seconds | added to every step of work |
| fail_once | list of kinds | the next task of that kind fails, once each |
| lie_cleanup | missing_step, false_ok | cleanup leaves data behind; see below |
| lose_reply | count | that many answers to results are lost on the way back |
| duplicate | count | that many results are sent twice |
| reboot | {kind, step} | the host goes down in that step, once; step "" is any |
| vfio_missing | true | slices lost a prerequisite: reported, and provisioning fails |
| burn_in | fail, hang, stuck | a burn-in finds a bad GPU, never ends, or cannot be stopped |
| missing | list of names | the same for anything else |
| drop_network | true | nothing reaches the control plane |

lie_cleanup leaves the tenant's data on the devices. With `missing_step` the evidence lacks the
steps that were skipped, although the task is reported complete; with `false_ok` it claims them all,
and only the next report or provisioning shows what is left.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nodeagent.files import locked, read_json, write_json
from nodeagent.protocol import TaskKind, WireError

MISSING_STEP, FALSE_OK = "missing_step", "false_ok"
BURN_FAIL, BURN_HANG, BURN_STUCK = "fail", "hang", "stuck"


class FaultError(ValueError):
    """A fault that is not on the menu, or a value that it cannot have."""


@dataclass(frozen=True)
class Reboot:
    """Where the host goes down."""

    kind: str
    step: str = ""


@dataclass(frozen=True)
class Faults:
    """The menu as it stands."""

    slow_s: float = 0.0
    fail_once: tuple[str, ...] = ()
    lie_cleanup: str = ""
    lose_reply: int = 0
    duplicate: int = 0
    reboot: Reboot | None = None
    vfio_missing: bool = False
    missing: tuple[str, ...] = field(default=())
    drop_network: bool = False
    burn_in: str = ""

    @property
    def missing_prerequisites(self) -> tuple[str, ...]:
        """What the host lacks."""
        return (*(("vfio-pci",) if self.vfio_missing else ()), *self.missing)


def set_fault(faults: Faults, name: str, value: str) -> Faults:
    """The menu with one fault set from text, as on a command line. Raises FaultError."""
    on = value.lower() in ("1", "true", "yes", "on")
    if name == "slow_s":
        return replace(faults, slow_s=_number(value))
    if name in ("lose_reply", "duplicate"):
        return _changed(faults, name, int(_number(value)))
    if name in ("vfio_missing", "drop_network"):
        return _changed(faults, name, on)
    if name == "lie_cleanup":
        lie = MISSING_STEP if on else "" if value.lower() in ("", "0", "false", "off") else value
        return replace(faults, lie_cleanup=_lie(lie))
    if name == "burn_in":
        return replace(faults, burn_in=_burn_in(value))
    if name == "fail_once":
        return replace(faults, fail_once=tuple(_kind(part) for part in _parts(value)))
    if name == "missing":
        return replace(faults, missing=tuple(_parts(value)))
    if name == "reboot":
        kind, _, step = value.partition(":")
        return replace(faults, reboot=Reboot(_kind(kind), step) if value else None)
    raise FaultError(f"{name} is not on the fault menu")


class FaultMenu:
    """The faults of one host, shared with whoever sets them from another process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "faults.json"
        self._lock = folder / ".faults.lock"
        self._seen: tuple[int, int] | None = None
        self._cached = Faults()

    def read(self) -> Faults:
        """The menu now. A damaged file counts as no faults."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._cached = None, Faults()
            return self._cached
        if self._seen != (stat.st_mtime_ns, stat.st_ino):
            self._seen = (stat.st_mtime_ns, stat.st_ino)
            self._cached = self._parse()
        return self._cached

    def write(self, faults: Faults) -> None:
        """Replace the menu."""
        with locked(self._lock):
            write_json(self._path, asdict(faults), durable=False)

    def set(self, name: str, value: str) -> Faults:
        """Set one fault from text. Raises FaultError."""
        with locked(self._lock):
            faults = set_fault(self.read(), name, value)
            write_json(self._path, asdict(faults), durable=False)
            return faults

    def clear(self) -> None:
        """No faults any more."""
        self.write(Faults())

    def take_count(self, name: str) -> bool:
        """Use one of a counted fault (lose_reply, duplicate). False when none is left."""
        if not getattr(self.read(), name):
            return False
        with locked(self._lock):
            left = int(getattr(self.read(), name))
            if left < 1:
                return False
            fewer = _changed(self.read(), name, left - 1)
            write_json(self._path, asdict(fewer), durable=False)
            return True

    def take_failure(self, kind: TaskKind) -> bool:
        """Use the failure of a kind. False when there is none."""
        if kind.value not in self.read().fail_once:
            return False
        with locked(self._lock):
            faults = self.read()
            kinds = list(faults.fail_once)
            if kind.value not in kinds:
                return False
            kinds.remove(kind.value)
            write_json(self._path, asdict(replace(faults, fail_once=tuple(kinds))), durable=False)
            return True

    def take_reboot(self, kind: TaskKind, step: str) -> bool:
        """Use the reboot, if it is for this kind and step. On disk before the host goes down."""
        reboot = self.read().reboot
        if reboot is None or reboot.kind != kind.value or reboot.step not in ("", step):
            return False
        with locked(self._lock):
            write_json(self._path, asdict(replace(self.read(), reboot=None)))
        return True

    def _parse(self) -> Faults:
        try:
            raw = read_json(self._path)
        except WireError:
            return Faults()
        return _from_json(raw) if isinstance(raw, dict) else Faults()


def _from_json(raw: dict[str, Any]) -> Faults:
    reboot = raw.get("reboot")
    try:
        return Faults(
            slow_s=float(raw.get("slow_s") or 0),
            fail_once=tuple(map(str, raw.get("fail_once") or ())),
            lie_cleanup=_lie(str(raw.get("lie_cleanup") or "")),
            lose_reply=int(raw.get("lose_reply") or 0),
            duplicate=int(raw.get("duplicate") or 0),
            reboot=Reboot(str(reboot["kind"]), str(reboot.get("step", ""))) if reboot else None,
            vfio_missing=bool(raw.get("vfio_missing")),
            missing=tuple(map(str, raw.get("missing") or ())),
            drop_network=bool(raw.get("drop_network")),
            burn_in=_burn_in(str(raw.get("burn_in") or "")),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return Faults()


def _changed(faults: Faults, name: str, value: Any) -> Faults:
    changes: dict[str, Any] = {name: value}
    return replace(faults, **changes)


def _lie(value: str) -> str:
    if value not in ("", MISSING_STEP, FALSE_OK):
        raise FaultError(f"lie_cleanup is {MISSING_STEP} or {FALSE_OK}")
    return value


def _burn_in(value: str) -> str:
    if value not in ("", BURN_FAIL, BURN_HANG, BURN_STUCK):
        raise FaultError(f"burn_in is {BURN_FAIL}, {BURN_HANG} or {BURN_STUCK}")
    return value


def _kind(value: str) -> str:
    try:
        return TaskKind(value.strip()).value
    except ValueError as error:
        raise FaultError(f"{value} is no task kind") from error


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise FaultError(f"{value} is no number") from error
    if not 0 <= number <= 86_400:
        raise FaultError("a number from 0 to 86400 is needed")
    return number
