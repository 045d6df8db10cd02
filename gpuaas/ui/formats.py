"""How are amounts, times and sizes written for people?"""

from __future__ import annotations

from datetime import UTC, datetime

HOURS_A_MONTH = 730
_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£"}


def money(micro: int, currency: str = "USD", *, places: int | None = None) -> str:
    """Millionths of a currency as text: at least two decimals, more where they matter."""
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), 1_000_000)
    if places == 0:
        return f"{sign}{_symbol(currency)}{whole + (rest >= 500_000):,}"
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    if places is not None:
        cents = (abs(micro) + 5_000) // 10_000
        whole, decimals = cents // 100, f"{cents % 100:02d}"
    return f"{sign}{_symbol(currency)}{whole:,}.{decimals}"


def _symbol(currency: str) -> str:
    return _SYMBOLS.get(currency, f"{currency} ")


def milli(amount: int) -> str:
    """Thousandths as units: 2000 is 2, 250 is 0.25."""
    whole, rest = divmod(abs(amount), 1000)
    text = f"{whole:,}" + (f".{rest:03d}".rstrip("0") if rest else "")
    return f"-{text}" if amount < 0 else text


def size(amount: int | None) -> str:
    """Bytes in binary units; None is unknown."""
    if amount is None:
        return "unknown"
    value, unit = float(amount), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            break
        value /= 1024
    text = f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"
    return f"{text} {unit}"


def speed(mbps: int | None) -> str:
    """Megabits a second; None is unknown."""
    if mbps is None:
        return "unknown"
    return f"{mbps / 1000:g} Gb/s" if mbps >= 1000 else f"{mbps} Mb/s"


def span(seconds: float) -> str:
    """A duration in its two largest units."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)


def relative(at: datetime, now: datetime) -> str:
    """How long ago or ahead, in its largest unit."""
    seconds = (now - at).total_seconds()
    if abs(seconds) < 5:
        return "now"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if abs(seconds) >= length:
            count = int(abs(seconds) // length)
            return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"
    return "now"


def exact(at: datetime) -> str:
    """The moment in UTC, for the title of a relative time."""
    return at.astimezone(UTC).strftime("%d %b %Y %H:%M:%S UTC")


def short(identifier: object) -> str:
    """An id that can be told apart at a glance: a UUIDv7's end is its random part."""
    text = str(identifier)
    return f"…{text[-8:]}" if len(text) > 12 else text


def short_gpu(uuid: str | None) -> str:
    """The first part of a GPU's UUID, as tools print it."""
    if uuid is None:
        return "unknown"
    return uuid.removeprefix("GPU-")[:8]
