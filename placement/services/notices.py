"""What is a tenant told about its allocations, once each, when their hardware is to be worked on?

Texts name no host and repeat none of an operator's words: those are for operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.core.mail import send_mail
from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from placement.domain.maintenance import Fate, fate
from placement.models import Claim, MaintenanceWindow, NodeDrain, Notice
from placement.models.maintenance import NoticeKind
from placement.selectors.occupants import Standing, occupants_of
from placement.states import LIVE
from tenants.models import Member, Role

_WHAT: Final = {
    Fate.ENDS: "Nothing is to be done: it ends by itself before then.",
    Fate.MOVES: "It may be moved: its new place is claimed before the old one is given up.",
    Fate.STAYS: "Release it and lease anew before then, or expect it to be interrupted.",
}


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _text(kind: NoticeKind, name: str, what: Fate, window: MaintenanceWindow | None) -> str:
    if window is None:
        if kind == NoticeKind.DRAIN_OVER:
            return f"What {name} runs on takes new work again. Nothing is to be done."
        return (
            f"What {name} runs on takes no new work for now. It goes on running; whatever is "
            "leased anew comes elsewhere."
        )
    if kind == NoticeKind.CANCELLED:
        return f"The maintenance of {_when(window.starts_at)} does not concern {name} any more."
    begin = "Soon: maintenance" if kind == NoticeKind.SOON else "Maintenance"
    return (
        f"{begin} of what {name} runs on, from {_when(window.starts_at)} to "
        f"{_when(window.ends_at)}. {_WHAT[what]}"
    )


def _tell(
    kind: NoticeKind,
    key: str,
    standing: Standing,
    *,
    actor: Actor,
    window: MaintenanceWindow | None = None,
) -> Notice | None:
    """One notice with its event; None where it was given already."""
    allocation = standing.allocation
    at = window.starts_at if window else None
    notice, new = Notice.objects.get_or_create(
        key=f"{kind}:{key}:{allocation.pk}",
        defaults={
            "tenant_id": allocation.tenant_id,
            "allocation": allocation,
            "kind": kind,
            "text": _text(
                kind, allocation.name, fate(standing.occupant, at) if at else Fate.STAYS, window
            ),
            "starts_at": at,
            "ends_at": window.ends_at if window else None,
        },
    )
    if not new:
        return None
    events.record(
        kind="placement.notice.give",
        subject=notice,
        actor=actor,
        after={"kind": str(kind), "text": notice.text},
        facts={"allocation": str(allocation.pk)},
    )
    return notice


@transaction.atomic
def window_told(window: MaintenanceWindow, kind: NoticeKind, *, actor: Actor) -> int:
    """Tell every tenant whom a window touches, if it was not told yet; how many were told now.

    Whatever has released its node or ends before the window is not touched. That a window was
    cancelled is told only to those who were told of it.
    """
    told = 0
    for standing in occupants_of(window.node_id):
        if kind == NoticeKind.CANCELLED:
            known = f"{NoticeKind.PLANNED}:{window.pk}:{standing.allocation.pk}"
            if not Notice.objects.filter(key=known).exists():
                continue
        elif fate(standing.occupant, window.starts_at) == Fate.ENDS:
            continue
        told += _tell(kind, str(window.pk), standing, actor=actor, window=window) is not None
    return told


def drain_told(drain: NodeDrain, kind: NoticeKind, *, actor: Actor) -> int:
    """Tell the tenants of what stands on a drained node or slot, or that the drain is over."""
    told = 0
    for standing in _on(drain, occupants_of(drain.node_id)):
        if kind == NoticeKind.DRAIN_OVER:
            known = f"{NoticeKind.DRAIN}:{drain.pk}:{standing.allocation.pk}"
            if not Notice.objects.filter(key=known).exists():
                continue
        told += _tell(kind, str(drain.pk), standing, actor=actor) is not None
    return told


def _on(drain: NodeDrain, found: Iterable[Standing]) -> list[Standing]:
    """Of what stands on the node, what is on the drained slot, or all of it."""
    if drain.slot_index is None:
        return list(found)
    claims = Claim.objects.filter(
        node_id=drain.node_id, state__in=LIVE, slot_index__in=(drain.slot_index, -1)
    )
    held = set(claims.values_list("allocation_id", flat=True))
    return [standing for standing in found if standing.allocation.pk in held]


@transaction.atomic
def notice_acknowledge(*, notice_id: UUID, actor: Actor) -> Notice:
    """Say that a notice was read. Repeating is one. Raises NotFound for another tenant's."""
    seen = Notice.objects.filter(pk=notice_id).first()
    if seen is None:
        raise errors.NotFound
    with platform_scope():
        row = Notice.objects.select_for_update(no_key=True, of=("self",)).get(pk=seen.pk)
        if row.acknowledged_at is None:
            row.acknowledged_at, row.acknowledged_by = clock.db_now(), actor.as_json()
            row.save(update_fields=["acknowledged_at", "acknowledged_by"])
            events.record(kind="placement.notice.acknowledge", subject=row, actor=actor)
    return row


SUBJECT: Final = "About your allocation {name}"
BODY: Final = """{text}

You find this and what else you were told on the notices page of {tenant}.
"""
READERS: Final = (Role.OWNER, Role.ADMIN)


@transaction.atomic
def notice_mail(notice_id: UUID) -> int:
    """Send a notice to the owners and admins of its tenant, once; to how many.

    It is marked before it is sent, so that no repetition of its event sends it twice.
    """
    marked = Notice.objects.filter(pk=notice_id, mailed_at__isnull=True)
    if not marked.update(mailed_at=clock.db_now()):
        return 0
    row = Notice.objects.select_related("allocation", "tenant").get(pk=notice_id)
    members = Member.objects.filter(tenant=row.tenant, role__in=READERS, user__is_active=True)
    addresses = sorted(set(members.values_list("user__email", flat=True)))
    subject = SUBJECT.format(name=row.allocation.name)
    body = BODY.format(text=row.text, tenant=row.tenant.name)
    for address in addresses:
        transaction.on_commit(partial(_send, subject, body, address))
    return len(addresses)


def _send(subject: str, body: str, address: str) -> None:
    send_mail(subject, body, None, [address], fail_silently=True)
