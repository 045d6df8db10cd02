"""How is what somebody has at hand looked for, and when is it gone to at once?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.kernel.errors import catalogue

MOST = 20
LONGEST = 120


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found."""

    kind: str
    title: str
    url: str
    state: str = ""


def words_of(request: HttpRequest) -> str:
    """What is looked for, at most ``LONGEST`` characters."""
    return request.GET.get("q", "").strip()[:LONGEST]


def straight_to(words: str, hits: list[Hit]) -> HttpResponse | None:
    """The way to the only hit, or the only exact one; None when there is a choice."""
    exact = [hit for hit in hits if hit.title.lower() == words.lower()]
    if len(exact or hits) == 1:
        return redirect((exact or hits)[0].url)
    return None


def reason_hits(words: str) -> list[Hit]:
    """The reason codes that the words are part of."""
    return [
        Hit("Reason", entry.code, reverse("portal:reason", args=[entry.code]))
        for entry in catalogue().values()
        if words.lower().replace(" ", "_") in entry.code
    ]


def uuid_of(words: str) -> UUID | None:
    """The id that the words are, if they are one."""
    try:
        return UUID(words)
    except ValueError:
        return None
