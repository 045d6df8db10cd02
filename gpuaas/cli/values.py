"""How is one value shown to a person? Money, sizes, times and states as text."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuaas.cli.problems import UsageError

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# A state's colour, by its last word; anything else stays plain.
_COLOURS = {
    "active": "green",
    "approved": "green",
    "available": "green",
    "done": "green",
    "free": "green",
    "ok": "green",
    "ready": "green",
    "released": "dim",
    "succeeded": "green",
    "fully_available": "green",
    "partially_allocated": "cyan",
    "fully_allocated": "blue",
    "admit": "green",
    "admitted": "green",
    "exclusive_baremetal": "blue",
    "in_use": "blue",
    "pending": "yellow",
    "wait": "yellow",
    "queued": "yellow",
    "running": "cyan",
    "placed": "cyan",
    "provisioning": "cyan",
    "releasing": "cyan",
    "draining": "yellow",
    "warn": "yellow",
    "blocked": "red",
    "cleanup_blocked": "red",
    "denied": "red",
    "deny": "red",
    "fail": "red",
    "failed": "red",
    "quarantined": "red",
    "rejected": "red",
    "suspended": "red",
    "unavailable": "red",
    "cancelled": "dim",
}


def clean(text: str) -> str:
    """Text without control characters, which could otherwise steer the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def text(value: Any) -> str:
    """Any JSON value in one table cell; null is "-", and a named object is its name."""
    if value is None or value == "":
        return "-"
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, Mapping) and (value.get("slug") or value.get("name")):
        return clean(str(value.get("slug") or value["name"]))
    if isinstance(value, Mapping):
        return clean(", ".join(f"{k}={text(v)}" for k, v in value.items())) or "-"
    if isinstance(value, list | tuple):
        return clean(",".join(text(item) for item in value)) or "-"
    return clean(str(value))


def money(micro: int | None, currency: str = "") -> str:
    """Micro-currency as a decimal, exact: at least two places, at most six."""
    if micro is None:
        return "-"
    whole, part = divmod(abs(int(micro)), 1_000_000)
    places = f"{part:06d}".rstrip("0").ljust(2, "0")
    sign = "-" if micro < 0 else ""
    return f"{sign}{whole}.{places}" + (f" {clean(currency)}" if currency else "")


def units(milli: int | None) -> str:
    """Milli-units as units: 2000 is "2", 500 is "0.5"."""
    if milli is None:
        return "-"
    whole, part = divmod(abs(int(milli)), 1000)
    sign = "-" if milli < 0 else ""
    return f"{sign}{whole}" + (f".{part:03d}".rstrip("0") if part else "")


def size(count: int | None) -> str:
    """Bytes with a binary unit; null is unknown, never zero."""
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return "unknown"


def speed(mbps: int | None) -> str:
    """Link speed from megabits a second."""
    if mbps is None:
        return "speed unknown"
    return f"{mbps / 1000:g} Gb/s" if mbps >= 1000 else f"{mbps} Mb/s"


def span(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "-"
    left = int(seconds)
    if left < 0:
        return "0s"
    if seconds < 10 and left != seconds:
        return f"{seconds:.1f}s"
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts[:2]) or "0s"


def moment(stamp: Any) -> datetime | None:
    """An aware datetime from the wire's ISO 8601 text; None when it is not one."""
    if not isinstance(stamp, str):
        return None
    try:
        parsed = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def age(stamp: Any, now: datetime | None = None) -> str:
    """How long ago a wire timestamp was; "-" when there is none."""
    then = moment(stamp)
    if then is None:
        return "-"
    return span(((now or datetime.now(UTC)) - then).total_seconds())


def json_object_in(file: str) -> dict[str, Any]:
    """The JSON object in a file. Raises UsageError on anything else."""
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{file} holds no JSON object")
    return found


def since(stamp: Any, now: datetime | None = None) -> str:
    """How a wire timestamp lies to now: `3m ago`, `in 2h`."""
    then = moment(stamp)
    if then is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def clock_time(stamp: Any) -> str:
    """A wire timestamp in UTC to the second."""
    then = moment(stamp)
    return then.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if then else text(stamp)


def fact(name: str, value: Any) -> str:
    """A named value in the unit its name declares: *_milli, *_micro, *_bytes, *_s, *_at."""
    if name.endswith("_at"):
        return clock_time(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return text(value)
    if name.endswith("_milli"):
        return units(int(value))
    if name.endswith("_micro"):
        return money(int(value))
    if name.endswith("_bytes"):
        return size(int(value))
    if name.endswith("_s"):
        return span(float(value))
    return text(value)


def fact_name(name: str) -> str:
    """The name of a fact without the unit that `fact` has already applied."""
    for suffix in ("_milli", "_micro", "_bytes", "_s"):
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix)
    return name


def facts(values: Mapping[str, Any]) -> str:
    """Several facts on one line: `limit 8, used 6, wanted 4`. What is not so is left out."""
    return ", ".join(
        f"{clean(fact_name(key)).replace('_', ' ')} {fact(key, value)}"
        for key, value in values.items()
        if value is not None and value is not False and value != ""
    )


def duration(written: str) -> float:
    """Seconds from `90`, `30s`, `5m`, `1h30m`. Raises UsageError on anything else."""
    plain = written.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    parts = _DURATION_PART.findall(plain)
    if not parts or "".join(f"{n}{u}" for n, u in parts) != plain:
        raise UsageError(f"{written!r} is not a duration; write 90, 30s, 5m or 1h30m")
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)


def colour(state: str) -> str:
    """The style of a state word, "" for plain."""
    return _COLOURS.get(state, "")
