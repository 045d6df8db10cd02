"""In whose words is a way out told?  In those of the surface on which it is read.

A hint names a step in braces, such as ``{wait}``; here each step is worded once for a program
that calls the API, a person at the command line, and a reader of a page. Whoever renders a hint
does not ask where it goes: the request's surface is set once, where the request comes in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_STEP = re.compile(r"\{([a-z_]*)\}")
_LABEL = re.compile(r"“([^”]+)”")


class Surface(StrEnum):
    """Where something is read."""

    API = "api"
    CLI = "cli"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a reader can do, as it is called on each surface."""

    api: str
    cli: str
    page: str

    def on(self, surface: Surface) -> str:
        """The words of a surface."""
        return {Surface.API: self.api, Surface.CLI: self.cli, Surface.PAGE: self.page}[surface]

    @property
    def label(self) -> str:
        """What stands on the page at the place that the step names; empty where it names none."""
        found = _LABEL.search(self.page)
        return found[1] if found else ""


STEPS: Final[Mapping[str, Step]] = {
    "wait": Step("wait: true", "--queue", "“Wait in the queue when nothing fits now”"),
    "duration": Step("max_duration_s", "--max-duration", "“Ends by itself after”"),
    "catalogue": Step("GET /skus", "gpuaas sku list", "“Catalogue”"),
    "images": Step("GET /images", "gpuaas api GET /images", "“Image” of the launch page"),
    "ssh_key": Step("POST /ssh-keys", "gpuaas ssh-key add", "“SSH keys”"),
    "version": Step(
        "send its ETag in If-Match", "run the command again", "send the form of the fresh page"
    ),
    "repeat": Step(
        "Repeat the request with the same Idempotency-Key",
        "Run the command again",
        "Send the form again",
    ),
    "sign_in": Step(
        "Send a valid, unexpired token as 'Authorization: Bearer …'", "Run gpuaas login", "Sign in"
    ),
    "approve": Step(
        "POST /nodes/NAME/actions/approve",
        "gpuaas node approve NAME",
        "“Approve the discovered slots” on the node's page",
    ),
    "discover": Step(
        "POST /nodes/NAME/actions/discover",
        "gpuaas node discover NAME",
        "“Discover again” on the node's page",
    ),
    "drain": Step(
        "POST /nodes/NAME/actions/drain", "gpuaas node drain NAME", "“Drain” on the node's page"
    ),
    "undrain": Step(
        "POST /nodes/NAME/actions/undrain",
        "gpuaas node undrain NAME",
        "“End the drain” on the node's page",
    ),
    "retire": Step(
        "POST /nodes/NAME/actions/retire", "gpuaas node retire NAME", "“Retire” on its page"
    ),
    "uses": Step(
        "GET /pools/NAME/uses (of families and SKUs likewise)",
        "gpuaas pool uses NAME (or family, or sku)",
        "“What uses it” on its page",
    ),
    "promote": Step(
        "POST /nodes/NAME/actions/promote",
        "gpuaas node promote NAME",
        "“Promote” on the node's page",
    ),
    "cut": Step(
        "POST /nodes/NAME/actions/cut", "gpuaas node cut NAME SLOT whole", "the node's page"
    ),
    "evidence_give": Step(
        "POST /nodes/NAME/evidence",
        "gpuaas node evidence-give NAME --check burn_in --verdict pass",
        "“Hand in a burn-in” on the node's page",
    ),
    "burn_in": Step(
        "POST /nodes/NAME/actions/burn-in",
        "gpuaas node burn-in NAME",
        "“Burn it in” on the node's page",
    ),
    "lift": Step(
        "POST /nodes/NAME/actions/lift-health",
        "gpuaas node lift-health NAME --gpu UUID",
        "“Lift it” on the node's page",
    ),
    "accept": Step(
        "POST /nodes/NAME/actions/accept",
        "gpuaas api POST /nodes/NAME/actions/accept",
        "“Accept” on the node's page",
    ),
    "give_up": Step(
        "POST /drift/ID/actions/remove", "gpuaas drift remove ID", "“Give up” on the drift page"
    ),
    "override": Step(
        "POST /allocations/ID/actions/override",
        "gpuaas override ask ID --reason WHY",
        "“Ask for an override” on its page",
    ),
    "approve_override": Step(
        "POST /allocations/ID/actions/approve-override",
        "gpuaas override approve ID --reason WHY",
        "“Approve the override” on its page",
    ),
    "join_token": Step(
        "POST /nodes/NAME/join-tokens",
        "gpuaas node join-token NAME",
        "“Make an invitation” on the node's page",
    ),
}
"""Each step by the name that hints give it. Labels in “ ” are those that stand on the page."""

_reader: ContextVar[Surface] = ContextVar("gpuaas_surface", default=Surface.PAGE)


def surface() -> Surface:
    """Where what is being made now will be read; outside of any request, by people."""
    return _reader.get()


@contextmanager
def read_on(where: Surface) -> Iterator[None]:
    """Everything inside is read there."""
    token = _reader.set(where)
    try:
        yield
    finally:
        _reader.reset(token)


def unknown_steps(hint: str) -> list[str]:
    """Names in braces that are no step."""
    return [name for name in _STEP.findall(hint) if name not in STEPS]


def worded(hint: str, where: Surface | None = None) -> str:
    """A hint with its steps in the words of a surface; of the reader's own unless told."""
    reader = where or surface()

    def told(found: re.Match[str]) -> str:
        step = STEPS.get(found[1])
        return step.on(reader) if step else found[0]

    return _STEP.sub(told, hint)
