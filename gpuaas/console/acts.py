"""How does a form of the console ask why, and offer what will happen before it does?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.datastructures import MultiValueDict

from gpuaas.console.actions import Offered
from gpuaas.ui.forms import LONGEST_REASON


class Again(Exception):
    """What was confirmed is not what would happen now: it has to be looked at again."""


class ReasonForm(forms.Form):
    """The reason, asked for last; whatever else a subclass asks comes before it."""

    reason = forms.CharField(
        label="Reason",
        max_length=LONGEST_REASON,
        help_text="Kept in the record.",
        error_messages={"required": "Say why: it is kept in the record."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first = list(self.field_order or ())
        rest = [name for name in self.fields if name not in (*first, "reason")]
        self.order_fields([*first, *rest, "reason"])


class SeenForm(ReasonForm):
    """For what is first looked at: the confirmation names what was seen by its digest."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)

    def looked_at(self, digest: str) -> bool:
        """Whether this very thing was seen; if not, sending the form again will say so."""
        if self.cleaned_data["seen"] == digest:
            return True
        sent: MultiValueDict[str, Any] = MultiValueDict(self.data)
        sent["seen"] = digest
        self.data = sent
        return False


class SureForm(ReasonForm):
    """For what cannot be undone: the name of the thing has to be typed."""

    confirm = forms.CharField(label="Type its name", max_length=120)

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = name
        self.fields["confirm"].help_text = f"To be sure: {name}"

    def clean_confirm(self) -> str:
        """The name, exactly."""
        typed: str = self.cleaned_data["confirm"]
        if typed != self.name:
            raise ValidationError(f"Type {self.name} to confirm; nothing has happened.")
        return typed


@dataclass(frozen=True, slots=True)
class Act:
    """One action as a page offers it: what it does, where it is sent, and its form."""

    offer: Offered
    url: str
    form: forms.Form


class Words(forms.CharField):
    """Names with commas between them; its value is a list without repeats."""

    def clean(self, value: Any) -> Any:
        """The names in the order typed."""
        text: str = super().clean(value)
        return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
