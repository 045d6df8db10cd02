"""Which key signs what hosts are told to do, and how does another take its place?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.ui.frame import Crumb
from placement.control_key_errors import ControlKeysUnusable
from placement.services.control_keys import (
    FORMER,
    NEXT,
    SIGNING,
    ControlKey,
    control_key_back,
    control_key_prepare,
    control_key_retire,
    control_key_switch,
    control_keys_list,
)


class KeyForm(ReasonForm):
    """One key, which its fingerprint confirms, and the reason."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=64)


class RetireForm(KeyForm):
    """The same, for the end of a key."""

    at_once = forms.BooleanField(
        label="It was stolen: do not wait",
        required=False,
        help_text="Hosts refuse what it has signed, and are given that work again.",
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that can be done: its words, its form, and what does it."""

    title: str
    button: str
    text: str
    form: type[ReasonForm]
    act: Callable[..., object]
    done: str
    main: bool = False


STEPS: Final[dict[str, Step]] = {
    "prepare": Step(
        "Prepare the next key",
        "Prepare it",
        "It signs nothing yet. Then write control-keys.toml anew on every host.",
        ReasonForm,
        control_key_prepare,
        "The next key is prepared.",
    ),
    "switch": Step(
        "Switch to it",
        "Let it sign",
        "It signs from now on. A host whose helper does not have it does no work until it has. "
        "The present key is kept for the way back.",
        KeyForm,
        control_key_switch,
        "The key signs from now on.",
        main=True,
    ),
    "back": Step(
        "Go back to it",
        "Let it sign again",
        "It signs again from now on. The present key is kept in its stead.",
        KeyForm,
        control_key_back,
        "The key of before signs again.",
    ),
    "retire": Step(
        "Retire it",
        "Remove it",
        "Its file is removed: there is no way back to it. Then write control-keys.toml anew on "
        "every host.",
        RetireForm,
        control_key_retire,
        "The key is removed.",
    ),
}
OFFERED: Final = {SIGNING: (), NEXT: ("switch", "retire"), FORMER: ("back", "retire")}
SAID: Final = {
    SIGNING: "signs what hosts are told to do",
    NEXT: "is prepared, and signs nothing yet",
    FORMER: "signed before, and is kept for the way back",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A step as the page offers it."""

    step: Step
    url: str
    form: forms.Form


def _ids(name: str, key: str) -> str:
    """The pattern of the ids of a form's fields; a key that was sent may be any text."""
    return f"{name}-{key}-".replace("%", "%%") + "%s"


class ControlKeyBoard(ConsolePage):
    """The keys that are kept, each with what can be done with it."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Control keys"),)

    def show(self, sent: dict[tuple[str, str], forms.Form], status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused, by step and key."""
        keys: tuple[ControlKey, ...] = ()
        try:
            keys = control_keys_list()
        except ControlKeysUnusable as refused:
            messages.error(self.request, f"{refused.detail} {refused.unblock}")
        there = {key.role for key in keys}
        offered = {(name, key.fingerprint) for key in keys for name in OFFERED[key.role]}
        loose = [*sent.keys() - offered]
        if keys and NEXT not in there and ("prepare", "") not in loose:
            loose.append(("prepare", ""))
        return self.page(
            "console/control_keys.html",
            status=status,
            rows=[
                (
                    key,
                    SAID[key.role],
                    [
                        self._offer(name, key.fingerprint, sent, never_signed=key.role == NEXT)
                        for name in OFFERED[key.role]
                    ],
                )
                for key in keys
            ],
            loose=[self._offer(name, key, sent) for name, key in loose],
            may_write=self.may(self.write_action),
        )

    def _offer(
        self,
        name: str,
        key: str,
        sent: dict[tuple[str, str], forms.Form],
        *,
        never_signed: bool = False,
    ) -> Offer:
        step = STEPS[name]
        # For what signed nothing there is nothing to wait for.
        kind = KeyForm if never_signed else step.form
        fresh = kind(initial={"key": key}, auto_id=_ids(name, key))
        url = reverse("console:control-key-act", args=[name])
        return Offer(step, url, sent.get((name, key)) or fresh)


class ControlKeys(ControlKeyBoard):
    """The page itself."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The key that signs first."""
        return self.show({})


class ActOnControlKey(ControlKeyBoard):
    """One step."""

    def post(self, request: HttpRequest, act: str) -> HttpResponse:
        """Do it, or say beside the key why not."""
        step = STEPS.get(act)
        if step is None:
            raise Http404
        key = request.POST.get("key", "") if act != "prepare" else ""
        form = step.form(request.POST, auto_id=_ids(act, key[:64]))

        def do(given: dict[str, Any]) -> None:
            step.act(**given, actor=self.actor)

        if not self.attempt(form, do):
            self.tell(form)
            return self.show({(act, key): form}, 400)
        messages.success(request, step.done)
        return redirect("console:control-keys")
