"""Which tenants are never placed on one host?  Sets of them, by an operator's word.

A set binds placements from then on: who has looked at a host before finds it changed, and looks
again with the set. Members that share a host already stay where they are: they
are told before it is set, and for as long as it is so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from placement.models import Separation
from placement.selectors.separations import together_now
from placement.services.nodes import looks_void, need_reason
from tenants.errors import PreviewStale
from tenants.models import Tenant

MOST: Final = 50
"""Members of a set: each placement of one looks for the claims of all others on a host."""
NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class SeparationPreview:
    """What a set would come to, before it is set."""

    name: str
    added: list[str]
    dropped: list[str]
    together: list[tuple[str, list[str]]]
    """Hosts that several members share now, with who they are; they stay there."""

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def _checked(name: str, tenants: Sequence[UUID]) -> dict[str, str]:
    """The members, id to slug, in order. Raises InvalidRequest, naming the field."""
    if not NAME.fullmatch(name):
        raise errors.InvalidRequest.of(
            "name", "name_refused", "a slug is needed: a to z, digits, hyphens"
        )
    members = sorted(set(tenants))
    if not 2 <= len(members) <= MOST:
        raise errors.InvalidRequest.of("tenants", "out_of_range", f"2 to {MOST} tenants")
    found = dict(Tenant.objects.filter(pk__in=members).values_list("pk", "slug"))
    if len(found) < len(members):
        raise errors.InvalidRequest.of("tenants", "unknown", "no tenant of this id")
    return {str(pk): found[pk] for pk in members}


def separation_preview(*, name: str, tenants: Sequence[UUID]) -> SeparationPreview:
    """What this set would change. Writes nothing; raises as ``separation_set`` does."""
    row = Separation.objects.filter(name=name).first()
    return _preview(name, _checked(name, tenants), row.tenants if row is not None else ())


def _preview(name: str, members: dict[str, str], had: Sequence[str]) -> SeparationPreview:
    before = set(had)
    gone = Tenant.objects.filter(pk__in=before - set(members)).values_list("slug", flat=True)
    return SeparationPreview(
        name=name,
        added=sorted(slug for pk, slug in members.items() if pk not in before),
        dropped=sorted(gone),
        together=together_now([UUID(pk) for pk in members]),
    )


@transaction.atomic
def separation_set(
    *, name: str, tenants: Sequence[UUID], reason: str, actor: Actor, seen: str | None = None
) -> Separation:
    """All members of one set, from the next placement on.

    ``seen`` is the digest of the preview that was looked at. Raises InvalidRequest naming the
    field, PreviewStale when it would come to something else.
    """
    why = need_reason(reason)
    members = _checked(name, tenants)
    row, fresh = Separation.objects.select_for_update().get_or_create(
        name=name, defaults={"tenants": list(members), "reason": why}
    )
    # Under its lock: what was looked at is compared with what it replaces.
    digest = _preview(name, members, () if fresh else row.tenants).digest
    if seen not in (None, digest):
        raise PreviewStale("What the set comes to has changed.", digest=digest)
    before = None if fresh else {"tenants": row.tenants}
    if not fresh:
        row.tenants, row.reason, row.version = list(members), why, row.version + 1
        row.save()
    looks_void([UUID(pk) for pk in members])
    events.record(
        kind="placement.separation.set",
        subject=row,
        actor=actor,
        before=before,
        after={"name": name, "tenants": list(members)},
        reason=why,
    )
    return row


@transaction.atomic
def separation_remove(*, name: str, reason: str, actor: Actor) -> None:
    """Let its members share hosts again. Raises NotFound."""
    why = need_reason(reason)
    row = Separation.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise errors.NotFound(f"There is no set {name!r} of tenants that are kept apart.")
    events.record(
        kind="placement.separation.remove",
        subject=row,
        actor=actor,
        before={"name": name, "tenants": row.tenants},
        reason=why,
    )
    row.delete()
