"""Which hosts are there, what is on each, and what can be done to it?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import mark_safe

from gpuaas.console.actions import (
    ANSWERS,
    NodeNumbers,
    Offered,
    node_actions,
    node_run,
    override_offers,
    slot_run,
)
from gpuaas.console.fitness import fitness_of
from gpuaas.console.fleet import posture_counts, strips_of
from gpuaas.console.measured import COLUMNS, measured
from gpuaas.console.pages import ConsolePage
from gpuaas.console.picture import draw
from gpuaas.console.upkeep import fates_in_words, upkeep_of
from gpuaas.console.views.drift import ACCEPTABLE, REMOVABLE
from gpuaas.kernel import clock, errors
from gpuaas.kernel.models import Event
from gpuaas.ui.forms import refuse, text_in
from gpuaas.ui.four import sides_of
from gpuaas.ui.frame import Crumb
from gpuaas.ui.live import event_stream
from gpuaas.ui.marks import mark_of
from placement.domain.capacity import POSTURES
from placement.domain.parts import WHOLE
from placement.models import Claim, Node, NodeDrain, NodeFamily, NodeTask, Pool, Slot
from placement.models.node import Intended
from placement.selectors import (
    Block,
    differences_of,
    drift_of_node,
    links_of,
    node_list,
    node_named,
    node_picture,
    node_states,
    postures_of,
    slot_blocks,
    slot_list,
    task_list,
    telemetry_of,
)
from placement.services import nodes as services
from placement.services.agents import join_token_create
from placement.services.cuts import slot_cut
from placement.services.differences import slot_accept
from placement.services.overrides import approval_rule
from placement.states import LIVE, NodeState, SlotState

NODES_SHOWN = 200
TASKS_SHOWN = 12
EVENTS_SHOWN = 30


class NodeForm(forms.Form):
    """A host that is going to join."""

    name = forms.RegexField(
        r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z",
        label="Name",
        max_length=63,
        help_text="As in DNS: small letters, digits, hyphens.",
    )
    pool = forms.ModelChoiceField(
        Pool.objects.filter(retired_at__isnull=True).order_by("name"), empty_label=None
    )
    intended = forms.ChoiceField(label="Meant for", choices=Intended.choices, initial=Intended.ANY)
    zone = forms.CharField(max_length=40, required=False)
    block = forms.CharField(max_length=40, required=False)
    rack = forms.CharField(max_length=40, required=False)


class Nodes(ConsolePage):
    """The list, and the announcement of a new host."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list with an empty form."""
        return self.show(NodeForm())

    def show(self, form: NodeForm, status: int = 200) -> HttpResponse:
        """The list with this form."""
        wanted, after = self.request.GET.get("posture", ""), self.request.GET.get("cursor", "")
        names = dict(Node.objects.values_list("pk", "name"))
        postures = postures_of(names)
        kept = [name for pk, name in names.items() if not wanted or postures[pk] == wanted]
        page = sorted(name for name in kept if name > after)[: NODES_SHOWN + 1]
        shown = page[:NODES_SHOWN]
        return self.page(
            "console/nodes.html",
            status=status,
            strips=strips_of(node_list().filter(name__in=shown)),
            cursor=shown[-1] if len(page) > len(shown) else "",
            counts=posture_counts(postures.values()),
            posture=wanted if wanted in POSTURES else "",
            total=len(names),
            form=form,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Announce a host, then go to its page for the invitation."""
        form = NodeForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            try:
                node = services.node_create(
                    name=given["name"],
                    pool=given["pool"].name,
                    intended=given["intended"],
                    zone=given["zone"],
                    block=given["block"],
                    rack=given["rack"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                return redirect("console:node", node.name)
        return self.show(form, 400)


@dataclass(frozen=True, slots=True)
class BlockedSlot:
    """A slot with what blocks it, and the next step of an override at its address."""

    slot: Slot
    blocks: list[Block]
    offers: list[Offered]
    base: str


class OneNode(ConsolePage):
    """What pages about one node share."""

    node: Node

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        name = self.node.name if hasattr(self, "node") else ""
        return (Crumb("Nodes", reverse("console:nodes")), Crumb(name))

    def show(self, name: str, *, token: str = "", status: int = 200) -> HttpResponse:
        """The node's page; ``token`` is a fresh invitation, shown this once."""
        node = self.node = node_named(name)
        slots = list(slot_list(node))
        claims = list(
            Claim.objects.select_related("tenant", "allocation")
            .filter(node_num=node.num, state__in=LIVE)
            .order_by("slot_index")
        )
        drains = list(NodeDrain.objects.filter(node=node, ended_at__isnull=True))
        states = node_states(node)
        picture = node_picture(node)
        telemetry = telemetry_of(node)
        numbers = NodeNumbers(
            state=node.state,
            live_claims=len(claims),
            free=node.free_count,
            verified=sum(slot.state == SlotState.VERIFIED for slot in slots),
            drained=any(drain.slot_index is None for drain in drains),
            fates=fates_in_words(node),
        )
        held = {claim.slot_index: claim for claim in claims if claim.part is None}
        whole = held.get(-1)
        shown = {mark.index: mark.state for mark in picture.marks()}
        rows = [
            (slot, held.get(slot.index, whole), shown.get(slot.index, slot.state)) for slot in slots
        ]
        # The drawing is made of escaped parts only; its test proves it on hostile names.
        svg = mark_safe(draw(picture, name=node.name))
        part = self.request.headers.get("HX-Request") == "true" and not token
        response = self.page(
            "console/node_live.html" if part else "console/node.html",
            status=status,
            node=node,
            posture=mark_of(states["posture"]),
            four=sides_of(states, ages=node.state != NodeState.RETIRED),
            picture=picture,
            svg=svg,
            links=links_of(node),
            rows=rows,
            claims=claims,
            drains=drains,
            blocked=_blocked(node, slots),
            differences=differences_of(node),
            drift_rows=drift_of_node(node),
            acceptable=ACCEPTABLE,
            removable=REMOVABLE,
            may_act=self.may(self.write_action),
            telemetry=telemetry,
            measured=measured(telemetry),
            fitness=fitness_of(node),
            measured_heads=[column[1] for column in COLUMNS],
            cut_marks=[mark for mark in picture.marks() if mark.cut != WHOLE],
            cuts=[(cut, words) for cut, words in CUT_WORDS.items() if cut in _cuts(node)],
            drained_slots={d.slot_index for d in drains if d.slot_index is not None},
            tasks=list(task_list(node)[:TASKS_SHOWN]),
            events=list(Event.objects.filter(subject_id=node.pk).order_by("-id")[:EVENTS_SHOWN]),
            actions=self.offered(node_actions(numbers)),
            families=list(NodeFamily.objects.filter(retired_at__isnull=True).order_by("name")),
            upkeep=upkeep_of(node),
            token=token,
            legend=sorted({mark.state for mark in picture.marks()}),
            server=self.request.build_absolute_uri("/").rstrip("/"),
        )
        if token:
            response["Cache-Control"] = "no-store"
        return response


CUT_WORDS = {
    WHOLE: "whole",
    "mig": "in MIG instances, each with memory and faults of its own",
    "share": "in shares of one tenant, without isolation between them",
}


def _cuts(node: Node) -> tuple[str, ...]:
    """As what the slots of this host can be sold."""
    return (WHOLE, *node.part_kinds)


def _blocked(node: Node, slots: list[Slot]) -> list[BlockedSlot]:
    blocks = slot_blocks(node)
    rule = approval_rule() if blocks else ""
    here = reverse("console:node", args=[node.name])
    shown = []
    for slot in slots:
        mine = blocks.get(slot.index)
        if mine:
            asked = next((b.asked_by.get("name", "somebody") for b in mine if b.asked_by), "")
            offers = override_offers(asked, rule)
            shown.append(BlockedSlot(slot, mine, offers, f"{here}slots/{slot.pk}/"))
    return shown


class NodePage(OneNode):
    """One host: its picture, slots, claims, tasks, four states, history, actions."""

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The page, or its live part when a script asks for it."""
        return self.show(name)


class JoinTokenPage(OneNode):
    """Invite the host."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """A new invitation; older unused ones end. Its text is shown once."""
        node = node_named(name)
        _, text = join_token_create(node_id=node.pk, actor=self.actor)
        return self.show(name, token=text)


class ActOnNode(OneNode):
    """Do one of the node's actions."""

    def post(self, request: HttpRequest, name: str, action: str) -> HttpResponse:
        """Do it with the reason given, and go back to the node."""
        node = node_named(name)
        run = node_run(action, text_in(request, "family", 60))
        if run is None:
            raise errors.NotFound
        run(node.pk, text_in(request), self.actor)
        messages.success(request, f"{node.name}: {action.replace('-', ' ')} done.")
        return redirect("console:node", node.name)


class OverrideSlot(OneNode):
    """Ask to reuse a blocked slot without proof; approve, refuse or withdraw that."""

    def post(self, request: HttpRequest, name: str, slot: UUID, action: str) -> HttpResponse:
        """Do it with the reason given, and go back to the node."""
        node = node_named(name)
        run, row = slot_run(action), slot_list(node).filter(pk=slot).first()
        if run is None or row is None:
            raise errors.NotFound
        if action in ANSWERS:
            self.check_may("overrides:write")
        run(row.pk, text_in(request), self.actor)
        messages.success(request, f"{node.name} slot {row.index}: {action.replace('-', ' ')} done.")
        return redirect("console:node", node.name)


class ActOnSlot(OneNode):
    """Drain one slot, end its drain, cut it otherwise, or accept what differs about it."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Do it with the reason given."""
        node = node_named(name)
        action, slot = request.POST.get("do", ""), request.POST.get("slot", "")
        index = int(slot) if slot.isascii() and slot.isdigit() and len(slot) < 6 else -1
        run: dict[str, Callable[..., object]] = {
            "drain": services.node_drain,
            "undrain": services.node_undrain,
            "accept": slot_accept,
            "cut": partial(slot_cut, cut=text_in(request, "cut", 8)),
        }
        if action not in run or not slot_list(node).filter(index=index).exists():
            raise errors.NotFound
        reason = text_in(request)
        run[action](node_id=node.pk, reason=reason, actor=self.actor, slot_index=index)
        messages.success(request, f"{node.name} slot {index}: {action} done.")
        return redirect("console:node", node.name)


class NodeLive(ConsolePage):
    """The changes of one host."""

    def get(self, request: HttpRequest, name: str, **_: Any) -> HttpResponseBase:
        """The stream."""
        node_id: UUID = node_named(name).pk
        return event_stream([f"node:{node_id}"], lambda: _fingerprint(node_id))


def _fingerprint(node_id: UUID) -> str | None:
    row = Node.objects.filter(pk=node_id).values_list(
        "version", "generation", "health", "observed_at", "num"
    )
    found = row.first()
    if found is None:
        return None
    *facts, observed_at, num = found
    fresh = observed_at is not None and (clock.now() - observed_at).total_seconds() < 60
    tasks = NodeTask.objects.filter(node_id=node_id).aggregate(last=Max("state_since"))
    claims = Claim.objects.filter(node_num=num).aggregate(last=Max("state_since"))
    return f"{facts}-{fresh}-{tasks['last']}-{claims['last']}"
