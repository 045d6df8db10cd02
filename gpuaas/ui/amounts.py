"""How does a person type an amount?  A plain decimal, read exactly."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from tenants.domain.amounts import MOST


class Exact(forms.CharField):
    """A plain decimal, read exactly: its value is in whole parts of the last place that it may
    have. No sign, no exponent."""

    whole: ClassVar[int]
    """The most digits before the point."""
    places: ClassVar[int]
    """The most digits after it."""
    told: ClassVar[str]
    """What to type instead of something else."""

    def __init__(self, **how: Any) -> None:
        super().__init__(max_length=20, **how)
        self.widget.attrs["inputmode"] = "decimal"

    def clean(self, value: Any) -> Any:
        """The amount in parts, or None where it may be left empty."""
        text = super().clean(value)
        if not text:
            return None
        if not re.fullmatch(rf"\d{{1,{self.whole}}}(?:\.\d{{1,{self.places}}})?", text, re.ASCII):
            raise ValidationError(self.told)
        whole, _, rest = text.partition(".")
        return int(whole) * 10**self.places + int(rest.ljust(self.places, "0") or 0)


class Units(Exact):
    """Units with at most three decimals; its value is milli-units."""

    whole, places = 12, 3
    told = "A number of units such as 8 or 0.5, with no sign or exponent."

    def __init__(self, *, least: int = 0, **how: Any) -> None:
        self.least = least
        super().__init__(**how)

    def clean(self, value: Any) -> Any:
        """The amount in milli-units, or None where it may be left empty."""
        amount = super().clean(value)
        if amount is not None and not self.least <= amount <= MOST:
            raise ValidationError("This amount is out of range.")
        return amount


class Money(Exact):
    """An amount of the currency with at most six decimals; its value is in millionths."""

    whole, places = 10, 6
    told = "An amount such as 2500 or 99.95, with no sign or exponent."


class Whole(forms.IntegerField):
    """A whole number in the digits 0 to 9: other scripts' digits are not taken for them."""

    def to_python(self, value: Any) -> int | None:
        """The number, or None where it may be left empty."""
        if isinstance(value, str) and not value.isascii():
            raise ValidationError("A whole number in the digits 0 to 9.", code="invalid")
        return super().to_python(value)
