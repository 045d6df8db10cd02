"""Which small pieces do templates use?  States, times, ids, amounts, icons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuaas.kernel import clock, errors, hints
from gpuaas.ui import formats, marks

register = template.Library()

_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
_NOISE = frozenset({"subject_kind", "never", "preview"})
_UNITS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("_milli", formats.milli),
    ("_micro", formats.money),
    ("_bytes", formats.size),
    ("_us", "{} µs".format),
    ("_s", formats.span),
)

register.filter("size", formats.size)
register.filter("speed", formats.speed)
register.filter("short", formats.short)
register.filter("short_gpu", formats.short_gpu)
register.filter("milli", formats.milli)


@register.simple_tag
def icon(name: str) -> SafeString:
    """A decorative icon from the sprite; the word beside it carries the meaning."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.simple_tag
def state(code: str) -> SafeString:
    """A state as icon, word and colour."""
    return mark(marks.mark_of(str(code)))


@register.simple_tag
def phase(text: str, code: str) -> SafeString:
    """A computed phase in the colour of the state beneath it."""
    return mark(marks.mark_of_phase(str(text), str(code)))


@register.simple_tag
def mark(shown: marks.Mark) -> SafeString:
    """A mark that the view has chosen."""
    return format_html(
        '<span class="state s-{}">{}{}</span>', shown.role, icon(shown.icon), shown.word
    )


@register.simple_tag
def role(name: str, word: str) -> SafeString:
    """A word in a named role (ok, info, waiting, warning, blocked, failed, ended)."""
    chosen: marks.Role = next((r for r in marks.ROLES if r == name), "warning")
    return mark(marks.Mark(chosen, word))


@register.simple_tag
def when(at: datetime | str | None, empty: str = "never") -> SafeString | str:
    """A relative time whose exact moment is in its title, in UTC until a script knows better."""
    if not at:
        return empty
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        formats.exact(moment),
        formats.relative(moment, clock.now()),
    )


@register.simple_tag
def age(seconds: float | None) -> str:
    """How old an observation is, in words."""
    return "never" if seconds is None else f"{formats.span(seconds)} ago"


@register.filter
def span(seconds: float | None) -> str:
    """A duration."""
    return "unknown" if seconds is None else formats.span(seconds)


@register.filter
def money(micro: int | None, currency: str = "USD") -> str:
    """Millionths of a currency."""
    return "unknown" if micro is None else formats.money(int(micro), currency)


@register.filter
def money2(micro: int | None, currency: str = "USD") -> str:
    """Millionths of a currency, rounded to hundredths."""
    return "unknown" if micro is None else formats.money(int(micro), currency, places=2)


@register.simple_tag
def size_of(held: object) -> str:
    """How large an allocation is: its part of a GPU, its slots, or a whole node."""
    sku, slots = getattr(held, "sku", None), getattr(held, "slots", 0)
    if profile := getattr(sku, "part_profile", ""):
        return str(profile)
    if milli := getattr(sku, "part_milli", None):
        return f"{milli}/1000 GPU"
    return f"{slots} slot{'' if slots == 1 else 's'}" if slots else "whole node"


@register.simple_tag
def ident(value: object) -> SafeString:
    """A shortened id with a button that copies all of it."""
    return format_html(
        '<span class="id" title="{0}">{1}</span>'
        '<button type="button" class="btn bare" data-copy="{0}" hidden>'
        '<span class="sr">Copy id {0}</span><span aria-hidden="true">copy</span></button>',
        value,
        formats.short(value),
    )


@register.inclusion_tag("ui/part_copy.html")
def copy(text: str, label: str = "") -> dict[str, str]:
    """A line to copy: a command, an address."""
    return {"text": text, "label": label}


@register.inclusion_tag("ui/part_list_tools.html")
def list_tools(name: str) -> dict[str, str]:
    """The tools of the list whose table has this ``data-list``: columns, density, filters."""
    return {"name": name}


@register.simple_tag
def reason(code: str) -> SafeString | str:
    """A reason code as a link to its page."""
    if not code:
        return ""
    if code not in errors.catalogue():
        return format_html("<code>{}</code>", code)
    return format_html('<a href="/docs/reasons/{0}"><code>{0}</code></a>', code)


@register.simple_tag
def step_label(name: str) -> str:
    """The label of a field that ways out name: the same words there and here."""
    return hints.STEPS[name].label


@register.filter
def reason_title(code: str) -> str:
    """What a code means, in a sentence."""
    entry = errors.catalogue().get(code)
    return entry.title if entry else code.replace("_", " ")


@register.filter
def unblock(code: str) -> str:
    """What would help against a code."""
    entry = errors.catalogue().get(code)
    return entry.unblock if entry else ""


@register.filter
def words(code: str) -> str:
    """A code as words."""
    return str(code).replace("_", " ").replace(".", " ")


@register.filter
def who(actor: object) -> str:
    """The name in a stored actor."""
    if isinstance(actor, Mapping):
        return str(actor.get("name") or actor.get("id") or "unknown")
    return str(actor or "unknown")


_NOUNS = {
    "admissionrequest": "request",
    "apitoken": "API token",
    "automaticaction": "automatic act",
    "breakerrule": "breaker",
    "breakglass": "break-glass",
    "burstrule": "burst window",
    "cardreplacement": "card's replacement",
    "cleanupproof": "cleanup proof",
    "dataset": "data set",
    "defragpolicy": "terms of moves",
    "devicehealth": "GPU's health",
    "envelopeversion": "envelope to come",
    "maintenancewindow": "maintenance window",
    "nodetask": "host task",
    "policyrule": "rule",
    "projectquota": "project's quota",
    "quotaincrease": "request for quota",
    "readinessterms": "terms of fitness",
    "serviceaccount": "program",
    "skuprice": "price",
    "slatier": "tier",
    "slotresidue": "traces on a slot",
    "sshkey": "SSH key",
    "workflowrun": "work",
}


@register.filter
def happened(kind: str) -> str:
    """An event's kind (``app.noun.edge``) as words: the noun and what happened to it."""
    parts = str(kind).split(".")
    if len(parts) < 3:
        return words(kind)
    noun = _NOUNS.get(parts[-2], words(parts[-2]))
    return f"{noun[:1].upper()}{noun[1:]}: {words(parts[-1])}"


@register.filter
def pairs(facts: object) -> list[tuple[str, str]]:
    """A flat mapping as (name, value) words, leaving out what only machines need."""
    if not isinstance(facts, Mapping):
        return []
    return [
        _pair(str(name), value)
        for name, value in facts.items()
        if value not in (None, "", [], {}) and not _only_for_machines(str(name), value)
    ]


def _only_for_machines(name: str, value: object) -> bool:
    return (
        name in _NOISE
        or name.endswith("_id")
        or (isinstance(value, str) and bool(_UUID.fullmatch(value)))
    )


def _pair(name: str, value: object) -> tuple[str, str]:
    """Units are written out: thousandths as units, bytes in binary units, seconds as a span."""
    if isinstance(value, int) and not isinstance(value, bool):
        for suffix, write in _UNITS:
            if name.endswith(suffix):
                return name.removesuffix(suffix).replace("_", " "), write(value)
    return name.replace("_", " "), _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        parts = [(words(k), v) for k, v in value.items() if v not in (None, "")]
        return ", ".join(
            f"{k} {v.replace('_', ' ') if isinstance(v, str) else _plain(v)}" for k, v in parts
        )
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(_plain(v) for v in value)
    return str(value)


@register.simple_tag
def month(hour_micro: int, currency: str = "USD") -> str:
    """What an hourly price comes to in a month."""
    return formats.money(hour_micro * formats.HOURS_A_MONTH, currency, places=2)


@register.simple_tag(takes_context=True)
def query(context: Mapping[str, Any], **changes: object) -> str:
    """The page's own query string with some members changed; an empty value removes one."""
    request: HttpRequest = context["request"]
    params = request.GET.copy()
    if "cursor" not in changes:
        params.pop("cursor", None)
    for name, value in changes.items():
        if value in (None, ""):
            params.pop(name, None)
        else:
            params[name] = str(value)
    text = params.urlencode()
    return f"?{text}" if text else "?"
