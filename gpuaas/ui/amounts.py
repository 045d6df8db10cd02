"""How does a person type an amount?  A plain decimal of units, read exactly as thousandths."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from tenants.domain.amounts import MOST

_FORM = re.compile(r"\d{1,12}(?:\.\d{1,3})?")


class Units(forms.CharField):
    """Units with at most three decimals; its value is milli-units. No sign, no exponent."""

    def __init__(self, *, least: int = 0, **how: Any) -> None:
        self.least = least
        super().__init__(max_length=20, **how)
        self.widget.attrs["inputmode"] = "decimal"

    def clean(self, value: Any) -> Any:
        """The amount in milli-units, or None where it may be left empty."""
        text = super().clean(value)
        if not text:
            return None
        if not _FORM.fullmatch(text):
            raise ValidationError("A number of units such as 8 or 0.5, with no sign or exponent.")
        whole, _, rest = text.partition(".")
        amount = int(whole) * 1000 + int(rest.ljust(3, "0") or 0)
        if not self.least <= amount <= MOST:
            raise ValidationError("This amount is out of range.")
        return amount
