"""How does a tier change, and how does a tenant come to have another one?

Both begin with a preview: whom it touches, which terms change for better or worse, which
running leases would have less isolation than promised. Making the change names the preview's
digest; when what it touches has changed meanwhile, the preview has to be looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from tenants.domain.names import slug_of
from tenants.domain.tiers import TERMS, Lease, Preview, faults, preview
from tenants.errors import PreviewStale, TenantNotActive
from tenants.models import SlaTier, Tenant, TierAssignment, TierVersion
from tenants.services.envelopes import GONE
from tenants.services.quota import tenant_locked
from tenants.services.tenancy import checked_name

NEW_TIER = {"priority_band": 100, "preemptible": False}


def terms_of(tier: SlaTier) -> dict[str, Any]:
    """What the version in force fixes."""
    return {term: getattr(tier, term) for term in TERMS}


def tier_named(name: str) -> SlaTier:
    """The tier of this name. Raises NotFound."""
    tier = SlaTier.objects.filter(name=name).first()
    if tier is None:
        raise errors.NotFound(f"There is no tier {name!r}.")
    return tier


def _checked(terms: Mapping[str, Any]) -> dict[str, Any]:
    wrong = faults(terms)
    if wrong:
        raise errors.InvalidRequest(
            "Some terms are refused.",
            errors=tuple(
                errors.FieldError(f"/{term}", "out_of_range", why) for term, why in wrong.items()
            ),
        )
    return dict(terms)


def _confirmed(seen: str, shown: Preview) -> None:
    if seen != shown.digest:
        raise PreviewStale(preview=shown.as_json())


@transaction.atomic
def tier_create(
    *, name: str, title: str, terms: Mapping[str, Any], reason: str, actor: Actor
) -> SlaTier:
    """A tier nobody has yet, with its first version; what is not named keeps its default."""
    if not name or name != slug_of(name, limit=40):
        raise errors.InvalidRequest(
            "A tier's name is a slug: a to z, digits, hyphens.",
            errors=(errors.FieldError("/name", "name_refused", "a slug is needed"),),
        )
    if SlaTier.objects.filter(name=name).exists():
        raise errors.InvalidRequest(
            f"A tier {name!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a tier has this name"),),
        )
    tier = SlaTier(name=name, title=checked_name(title, "/title"), **NEW_TIER)
    for term, value in _checked(terms).items():
        setattr(tier, term, value)
    tier.save(force_insert=True)
    _keep(tier, reason, actor)
    events.record(
        kind="tenants.slatier.create",
        subject=tier,
        actor=actor,
        after={"name": name, **terms_of(tier)},
        reason=reason,
    )
    return tier


def _keep(tier: SlaTier, reason: str, actor: Actor) -> TierVersion:
    return TierVersion.objects.create(
        tier=tier,
        version=tier.version,
        terms=terms_of(tier),
        reason=reason,
        actor=actor.as_json(),
    )


def tier_change_preview(
    *, name: str, terms: Mapping[str, Any], running: Sequence[Lease]
) -> Preview:
    """Whom a change of the tier's terms touches. ``running`` are the leases of its tenants."""
    tier = tier_named(name)
    before = terms_of(tier)
    slugs = Tenant.objects.filter(tier=tier).exclude(state__in=GONE).values_list("slug", flat=True)
    return preview(before, {**before, **_checked(terms)}, tenants=list(slugs), leases=running)


@transaction.atomic
def tier_change(
    *,
    name: str,
    terms: Mapping[str, Any],
    running: Sequence[Lease],
    seen: str,
    reason: str,
    actor: Actor,
) -> SlaTier:
    """The next version of a tier, when ``seen`` is the digest of what would happen now."""
    tier = SlaTier.objects.select_for_update(no_key=True).filter(name=name).first()
    if tier is None:
        raise errors.NotFound(f"There is no tier {name!r}.")
    _confirmed(seen, tier_change_preview(name=name, terms=terms, running=running))
    if not tier.versions.exists():
        _keep(tier, "as it was before versions were kept", actor)
    before = terms_of(tier)
    for term, value in _checked(terms).items():
        setattr(tier, term, value)
    tier.version += 1
    tier.save()
    _keep(tier, reason, actor)
    events.record(
        kind="tenants.slatier.change",
        subject=tier,
        actor=actor,
        before={term: before[term] for term in terms},
        after=dict(terms),
        reason=reason,
        facts={"version": tier.version, "preview": seen},
    )
    return tier


def tier_preview(*, tenant_id: UUID, tier: str, running: Sequence[Lease]) -> Preview:
    """What giving the tenant another tier touches. ``running`` are the tenant's leases."""
    tenant = Tenant.objects.select_related("tier").filter(pk=tenant_id).first()
    if tenant is None:
        raise errors.NotFound
    return preview(
        terms_of(tenant.tier),
        terms_of(tier_named(tier)),
        tenants=[tenant.slug],
        leases=running,
    )


@transaction.atomic
def tier_assign(
    *,
    tenant_id: UUID,
    tier: str,
    running: Sequence[Lease],
    seen: str,
    reason: str,
    actor: Actor,
) -> TierAssignment:
    """Give the tenant a tier, when ``seen`` is the digest of what that touches now.

    The preview is kept with the assignment. Raises PreviewStale.
    """
    tenant = tenant_locked(tenant_id)
    if tenant.state in GONE:
        raise TenantNotActive(f"The tenant is {tenant.state}.", state=tenant.state)
    shown = tier_preview(tenant_id=tenant_id, tier=tier, running=running)
    _confirmed(seen, shown)
    chosen = tier_named(tier)
    last = TierAssignment.objects.filter(tenant=tenant).aggregate(last=Max("version"))["last"]
    assignment = TierAssignment.objects.create(
        tenant=tenant,
        tier=chosen,
        tier_version=chosen.version,
        version=(last or 0) + 1,
        preview=shown.as_json(),
        reason=reason,
        actor=actor.as_json(),
    )
    before, tenant.tier = tenant.tier.name, chosen
    tenant.save(update_fields=["tier"])
    events.record(
        kind="tenants.tenant.tier",
        subject=tenant,
        actor=actor,
        before={"tier": before},
        after={"tier": tier, "tier_version": chosen.version},
        reason=reason,
        facts={"assignment": assignment.version, "preview": shown.digest},
    )
    return assignment
