"""Is this an amount that may be written down?"""

from __future__ import annotations

MOST = 10**15
"""The largest amount: sums of thousands of them still fit a 64-bit integer."""


class BadAmount(ValueError):
    """Why a number is refused."""


def clean_amount(value: object, *, least: int = 0, most: int = MOST) -> int:
    """The integer, when it is one from ``least`` to ``most``. Raises BadAmount.

    A fraction, a float (NaN and exponent forms among them), a text and a boolean are refused:
    an amount is never rounded, and 1e3 is not how it is written.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadAmount("it is not an integer")
    if not least <= value <= most:
        raise BadAmount(f"it is not between {least} and {most}")
    return value
