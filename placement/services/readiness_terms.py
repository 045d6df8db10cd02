"""What do hosts of a family need before they are sold, and what would other terms do to them?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from placement.domain.readiness import CAPABILITIES, CHECKS, Standing, judge
from placement.domain.seen import firmware_in
from placement.domain.terms import BadVersion, version_of
from placement.errors import NoTermsToRemove
from placement.models import (
    Node,
    NodeCapability,
    NodeFamily,
    ReadinessEvidence,
    ReadinessTerms,
)
from placement.selectors.fitness import as_terms, items_of
from placement.selectors.readiness_terms import EVERY, told_terms
from placement.services.capabilities import SOLD, rule_for
from placement.services.evidence import MOST_VALID_S
from placement.services.nodes import need_reason
from placement.states import CapabilityState
from tenants.errors import PreviewStale

SHOWN: Final = 50
Required = Mapping[str, Mapping[str, int | None]]


@dataclass(frozen=True, slots=True)
class Moved:
    """One host that other terms would move: what it is sold as, by which rule, and why."""

    node: str
    capability: str
    move: str
    because: str


@dataclass(frozen=True, slots=True)
class TermsPreview:
    """What other terms would do, before they are set. Of what is moved the first are named."""

    family: str
    changes: list[tuple[str, Any, Any]]
    hosts: int
    """Hosts in service that these terms are for."""
    demoted: int
    promoted: int
    moved: list[Moved]

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def _family(name: str) -> NodeFamily | None:
    """The family; None where the terms are for every family without its own."""
    if name in ("", EVERY):
        return None
    found = NodeFamily.objects.filter(name=name).first()
    if found is None:
        raise errors.InvalidRequest.of(
            "family", "unknown", f"no family of this name; {EVERY} is for all others"
        )
    return found


def _checked(
    *, required: Required, driver_min: str = "", firmware_min: str = "", auto_promote: bool = False
) -> dict[str, Any]:
    """The columns that terms as given come to. Raises InvalidRequest, naming the field."""
    for capability, checks in required.items():
        if capability not in CAPABILITIES:
            raise errors.InvalidRequest.of(
                "required", "unknown", f"one of {', '.join(CAPABILITIES)}"
            )
        for check, valid_s in checks.items():
            if check not in CHECKS:
                raise errors.InvalidRequest.of(
                    "required", "unknown", f"{check[:40]} is none of {', '.join(CHECKS)}"
                )
            if valid_s is not None and not 60 <= valid_s <= MOST_VALID_S:
                raise errors.InvalidRequest.of(
                    "required", "out_of_range", f"60 to {MOST_VALID_S} seconds"
                )
    try:
        driver = list(version_of(driver_min)) if driver_min else []
    except BadVersion as bad:
        raise errors.InvalidRequest.of("driver_min", "bad_format", str(bad)) from bad
    if firmware_min and not firmware_in(firmware_min):
        raise errors.InvalidRequest.of(
            "firmware_min", "bad_format", "hexadecimal numbers with dots between them"
        )
    return {
        "required": {c: dict(checks) for c, checks in required.items()},
        "driver_min": driver,
        "firmware_min": firmware_min,
        "auto_promote": auto_promote,
    }


def _hosts(family: NodeFamily | None) -> QuerySet[Node]:
    """Hosts in service that the terms of this family, or of every other one, are for."""
    sold = Node.objects.filter(state__in=SOLD)
    if family is not None:
        return sold.filter(family=family)
    own = ReadinessTerms.objects.filter(family__isnull=False, removed=False).values("family_id")
    return sold.filter(Q(family__isnull=True) | ~Q(family_id__in=own))


def readiness_terms_preview(*, family: str, **given: Any) -> TermsPreview:
    """Which hosts these terms would take shapes from, or give them to. Writes nothing.

    Raises InvalidRequest as ``readiness_terms_set`` does.
    """
    found, said = _family(family), _checked(**given)
    now = ReadinessTerms.objects.filter(family=found, removed=False).first()
    return _preview(found, now, ReadinessTerms(family=found, **said))


def readiness_terms_removal(*, family: str) -> TermsPreview:
    """Which hosts would move if the terms were removed. Writes nothing.

    Those of every family hold then; for them the product's. Raises NoTermsToRemove.
    """
    found = _family(family)
    now = ReadinessTerms.objects.filter(family=found, removed=False).first()
    if now is None:
        raise NoTermsToRemove(
            f"{found.name if found else EVERY} has no terms of its own.",
            family=found.name if found else EVERY,
        )
    every = ReadinessTerms.objects.filter(family__isnull=True, removed=False)
    return _preview(found, now, every.first() if found else None)


def _preview(
    found: NodeFamily | None, was: ReadinessTerms | None, other: ReadinessTerms | None
) -> TermsPreview:
    now, then = told_terms(was), told_terms(other)
    nodes = {node.pk: node for node in _hosts(found)}
    moved = _moved(nodes, other)
    return TermsPreview(
        family=found.name if found else EVERY,
        changes=[(name, now[name], then[name]) for name in then if now[name] != then[name]],
        hosts=len(nodes),
        demoted=sum(one.move == "suspend" for one in moved),
        promoted=sum(one.move in ("promote", "resume") for one in moved),
        moved=moved[:SHOWN],
    )


def _moved(nodes: Mapping[Any, Node], terms: ReadinessTerms | None) -> list[Moved]:
    """What the rule would do to these hosts under these terms, in two statements."""
    in_force, now = as_terms(terms), clock.db_now()
    evidence: dict[Any, list[ReadinessEvidence]] = {}
    for said in ReadinessEvidence.objects.filter(node__in=nodes):
        evidence.setdefault(said.node_id, []).append(said)
    standing: dict[Any, dict[str, Standing]] = {
        key: judge(items_of(evidence.get(key, [])), in_force.terms, now) for key in nodes
    }
    found = []
    for row in NodeCapability.objects.filter(node__in=nodes):
        node, stands = nodes[row.node_id], standing[row.node_id][row.capability]
        move = rule_for(row, stands, node, auto=in_force.auto)
        if move:
            because = "; ".join(f"{m.check} {m.standing}: {m.reason}" for m in stands.misses)
            found.append(Moved(node.name, row.capability, move, because[:300]))
    return sorted(found, key=lambda one: (one.move != "suspend", one.node, one.capability))


@transaction.atomic
def readiness_terms_set(
    *,
    family: str,
    required: Required,
    reason: str,
    actor: Actor,
    seen: str | None = None,
    **given: Any,
) -> ReadinessTerms:
    """What hosts of a family (empty or ``any``: of all without own terms) need, from now on.

    ``required``: for each capability its checks, with seconds for which each is good, or None.
    ``driver_min``, ``firmware_min``: the least versions. ``auto_promote``: a host that is meant for
    a shape, and fit for it, is promoted unasked. ``seen``: the digest of the preview that was
    looked at. Its hosts are judged anew by the next sweep. Raises InvalidRequest, naming the field,
    and PreviewStale when it would move others.
    """
    why = need_reason(reason)
    found, said = _family(family), _checked(required=required, **given)
    row = ReadinessTerms.objects.select_for_update().filter(family=found).first()
    if seen is not None:
        digest = readiness_terms_preview(family=family, required=required, **given).digest
        if digest != seen:
            raise PreviewStale("What the terms touch has changed.", digest=digest)
    held = row is not None and not row.removed
    before = {field: getattr(row, field) for field in said} if held else None
    row = row or ReadinessTerms(family=found, version=0)
    row.removed = False
    for field, value in said.items():
        setattr(row, field, value)
    row.version += 1
    row.save()
    events.record(
        kind="placement.readinessterms.set",
        subject=row,
        actor=actor,
        before=before,
        after={"family": found.name if found else "", **said},
        reason=why,
    )
    _rejudge(found)
    return row


@transaction.atomic
def readiness_terms_remove(
    *, family: str, reason: str, actor: Actor, seen: str | None = None
) -> ReadinessTerms:
    """Go back to the terms of every family, or, for those, to the product's own.

    ``seen``: the digest of the removal that was looked at. Raises NoTermsToRemove, and
    PreviewStale when it would move others.
    """
    why = need_reason(reason)
    found = _family(family)
    row = ReadinessTerms.objects.select_for_update().filter(family=found).first()
    digest = readiness_terms_removal(family=family).digest
    assert row is not None
    if seen is not None and digest != seen:
        raise PreviewStale("What the terms touch has changed.", digest=digest)
    fields = ("required", "driver_min", "firmware_min", "auto_promote")
    before = {field: getattr(row, field) for field in fields}
    row.removed, row.version = True, row.version + 1
    row.save(update_fields=["removed", "version"])
    events.record(
        kind="placement.readinessterms.remove",
        subject=row,
        actor=actor,
        before=before,
        after={"family": found.name if found else "", "removed": True},
        reason=why,
    )
    _rejudge(found)
    return row


def _rejudge(family: NodeFamily | None) -> None:
    """The next sweep judges the hosts anew that these terms are for."""
    due = NodeCapability.objects.exclude(state=CapabilityState.DEMOTED)
    due = due.filter(node__family=family) if family else due
    due.update(rejudge=True)
