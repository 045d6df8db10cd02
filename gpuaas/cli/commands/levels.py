"""What operators set: cohorts and service levels, caps, bursts and envelopes of tenants."""

import json
from typing import Annotated, Any

import typer

from gpuaas.cli import describe
from gpuaas.cli.authority_kinds import (
    BURST,
    CAPS,
    COHORT,
    ENVELOPE_VERSION,
    IMPACT,
    PREVIEW,
    TIER,
    TIER_VERSION,
)
from gpuaas.cli.client import segment
from gpuaas.cli.commands.authority import milli
from gpuaas.cli.commands.tenancy import Reason, Yes
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import TENANT
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.problems import Json, UsageError
from gpuaas.cli.session import Session, kind_path

Id = Annotated[str, typer.Argument(metavar="ID")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT")]
Cohort = Annotated[str, typer.Argument(metavar="COHORT")]
TierName = Annotated[str, typer.Argument(metavar="TIER")]
Class = Annotated[str, typer.Option("--class", help="Resource class.")]
Seen = Annotated[str, typer.Option("--seen", help="The digest of the preview.")]
Terms = Annotated[
    list[str] | None,
    typer.Option("--term", help="NAME=VALUE in JSON; repeat for more.", metavar="NAME=VALUE"),
]
OnExcess = Annotated[
    str | None, typer.Option("--on-excess", help="grandfather or drain what is held beyond it.")
]


def register(app: typer.Typer) -> None:
    """Add `cohort`, `tier`, `caps`, `burst` and `envelope`."""
    _cohorts(app)
    _tiers(app)
    _tier_terms(app)
    _caps(app)
    _bursts(app)
    _envelopes(app)


def terms_of(given: list[str] | None) -> Json:
    """The terms as typed; a value that is no JSON is a word."""
    terms: Json = {}
    for one in given or []:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise UsageError(f"{one!r} is no term", hint="such as --term priority_band=20")
        try:
            terms[name] = json.loads(text)
        except ValueError:
            terms[name] = text
    return terms


def tenant_path(tenant: str) -> str:
    """The address of a tenant given by slug or id."""
    return kind_path(TENANT, tenant)


def named(**given: Any) -> Json:
    """The members that were given."""
    return {name: value for name, value in given.items() if value is not None}


def _cohorts(app: typer.Typer) -> None:
    cohort = group(app, "cohort", "Cohorts: who lends unused quota to whom (operators).")

    @command(cohort, "list")
    def cohort_list(session: Session) -> None:
        """List the cohorts, parents before children."""
        show_list(session, COHORT, limit=None, everything=True)

    @command(cohort, "describe")
    def cohort_describe(session: Session, name: Cohort) -> None:
        """Show one cohort with its numbers, class by class."""
        session.out.item(COHORT, session.client.get(kind_path(COHORT, name)), describe.anything)

    @command(cohort, "create")
    def cohort_create(
        session: Session,
        name: Cohort,
        parent: Annotated[str | None, typer.Option("--parent", help="Never changes.")] = None,
        title: Annotated[str | None, typer.Option("--title", help="For people.")] = None,
    ) -> None:
        """Make a cohort, under a parent or as a root."""
        made = session.client.post(COHORT.path, named(name=name, parent=parent, title=title))
        session.out.item(COHORT, made, describe.anything)

    @command(cohort, "limit")
    def cohort_limit(
        session: Session,
        name: Cohort,
        resource_class: Class,
        reason: Reason,
        borrow: Annotated[
            str | None, typer.Option("--borrow", help="Units from its parent; else no limit.")
        ] = None,
        lend: Annotated[
            str | None, typer.Option("--lend", help="Units to its parent; else no limit.")
        ] = None,
    ) -> None:
        """Limit what a cohort borrows from its parent, and what it lends to it."""
        body = {
            "borrow_milli": None if borrow is None else milli(borrow),
            "lend_milli": None if lend is None else milli(lend),
            "reason": reason,
        }
        path = f"{kind_path(COHORT, name)}/limits/{segment(resource_class)}"
        session.out.item(COHORT, session.client.put(path, body), describe.anything)

    @command(cohort, "assign")
    def cohort_assign(
        session: Session,
        tenant: Tenant,
        reason: Reason,
        cohort: Annotated[
            str | None, typer.Option("--cohort", help="Without it the tenant leaves its cohort.")
        ] = None,
    ) -> None:
        """Put a tenant into a cohort, or into none."""
        body = {"cohort": cohort, "reason": reason}
        answer = session.client.put(f"{tenant_path(tenant)}/cohort", body)
        session.out.item(TENANT, answer, describe.anything)

    @command(cohort, "delete")
    def cohort_delete(session: Session, name: Cohort, yes: Yes = False) -> None:
        """Remove a cohort that has no members."""
        session.confirm(f"Delete cohort {name}?", yes=yes)
        session.client.delete(kind_path(COHORT, name))
        session.out.say(f"cohort {name} is gone")


def _tiers(app: typer.Typer) -> None:
    tier = group(app, "tier", "Service levels (operators).")

    @command(tier, "list")
    def tier_list(session: Session) -> None:
        """List the tiers, the most urgent first."""
        show_list(session, TIER, limit=None, everything=True)

    @command(tier, "describe")
    def tier_describe(session: Session, tier: TierName) -> None:
        """Show one tier: what its version in force promises."""
        session.out.item(TIER, session.client.get(kind_path(TIER, tier)), describe.anything)

    @command(tier, "versions")
    def tier_versions(
        session: Session, tier: TierName, limit: Limit = None, everything: All = False
    ) -> None:
        """List what a tier promised, the latest first."""
        path = f"{kind_path(TIER, tier)}/versions"
        show_list(session, TIER_VERSION, limit=limit, everything=everything, path=path)

    @command(tier, "create")
    def tier_create(
        session: Session,
        tier: TierName,
        title: Annotated[str, typer.Option("--title", help="For people.")],
        reason: Reason,
        term: Terms = None,
    ) -> None:
        """Make a tier that nobody has yet; terms that are not named keep their default."""
        body = {"name": tier, "title": title, "terms": terms_of(term), "reason": reason}
        session.out.item(TIER, session.client.post(TIER.path, body), describe.anything)

    @command(tier, "preview")
    def tier_preview(session: Session, tenant: Tenant, tier: TierName) -> None:
        """Show what giving a tenant the tier would touch. Nothing is changed."""
        path = f"{tenant_path(tenant)}/tier/preview"
        session.out.item(PREVIEW, session.client.post(path, {"tier": tier}), describe.anything)

    @command(tier, "assign")
    def tier_assign(
        session: Session, tenant: Tenant, tier: TierName, reason: Reason, seen: Seen
    ) -> None:
        """Give a tenant the tier, when what it touches is still what was looked at."""
        body = {"tier": tier, "seen": seen, "reason": reason}
        answer = session.client.put(f"{tenant_path(tenant)}/tier", body)
        session.out.item(TENANT, answer, describe.anything)


def _tier_terms(app: typer.Typer) -> None:
    terms = group(app, "tier-terms", "Changes of what a tier promises (operators).")

    @command(terms, "preview")
    def terms_preview(session: Session, tier: TierName, term: Terms = None) -> None:
        """Show whom a change of terms would touch. Nothing is changed."""
        path = f"{kind_path(TIER, tier)}/actions/preview"
        shown = session.client.post(path, {"terms": terms_of(term)})
        session.out.item(PREVIEW, shown, describe.anything)

    @command(terms, "change")
    def terms_change(
        session: Session, tier: TierName, reason: Reason, seen: Seen, term: Terms = None
    ) -> None:
        """Make the next version of a tier, when what it touches is what was looked at."""
        body = {"terms": terms_of(term), "seen": seen, "reason": reason}
        answer = session.client.post(f"{kind_path(TIER, tier)}/actions/change", body)
        session.out.item(TIER, answer, describe.anything)


def _caps(app: typer.Typer) -> None:
    caps = group(app, "caps", "Limits beside the envelopes: counts, sizes, shapes, zones, spend.")

    @command(caps, "show")
    def caps_show(
        session: Session,
        tenant: Annotated[
            str | None, typer.Argument(metavar="[TENANT]", help="Operators name one.")
        ] = None,
    ) -> None:
        """Show the caps of your tenant, or of the one named."""
        path = CAPS.path if tenant is None else f"{tenant_path(tenant)}/caps"
        session.out.item(CAPS, session.client.get(path), describe.anything)

    @command(caps, "set")
    def caps_set(
        session: Session,
        tenant: Tenant,
        reason: Reason,
        cap: Annotated[
            list[str] | None,
            typer.Option(
                "--cap", help="NAME=VALUE in JSON, null lifts it; repeat.", metavar="NAME=VALUE"
            ),
        ] = None,
    ) -> None:
        """Change the caps that are named; what is not named stays (operators)."""
        path = f"{tenant_path(tenant)}/caps"
        version = int(session.client.get(path).get("version") or 0)
        body = {**terms_of(cap), "reason": reason}
        session.out.item(CAPS, session.client.patch(path, body, version=version), describe.anything)


def _bursts(app: typer.Typer) -> None:
    burst = group(app, "burst", "When a tenant may borrow more (operators).")

    @command(burst, "list")
    def burst_list(session: Session, tenant: Tenant) -> None:
        """List a tenant's burst rules, those to come first."""
        path = f"{tenant_path(tenant)}/bursts"
        show_list(session, BURST, limit=None, everything=True, path=path)

    @command(burst, "create")
    def burst_create(
        session: Session,
        tenant: Tenant,
        name: Annotated[str, typer.Option("--name", help="What it is for.")],
        resource_class: Class,
        extra: Annotated[str, typer.Option("--extra", help="Units beyond its borrowing limit.")],
        opens_at: Annotated[str, typer.Option("--opens", help="A moment, as ISO 8601.")],
        closes_at: Annotated[str, typer.Option("--closes", help="A moment, as ISO 8601.")],
        reason: Reason,
        every_s: Annotated[
            int | None, typer.Option("--every-s", min=1, help="Again after so many seconds.")
        ] = None,
        on_close: Annotated[
            str | None, typer.Option("--then", help="grandfather or drain when it closes.")
        ] = None,
    ) -> None:
        """Let a tenant borrow more from its cohort in a window, once or again and again."""
        body = {
            "name": name,
            "resource_class": resource_class,
            "extra_milli": milli(extra),
            "opens_at": opens_at,
            "closes_at": closes_at,
            "reason": reason,
            **named(every_s=every_s, on_close=on_close),
        }
        made = session.client.post(f"{tenant_path(tenant)}/bursts", body)
        session.out.item(BURST, made, describe.anything)

    @command(burst, "end")
    def burst_end(session: Session, key: Id, reason: Reason) -> None:
        """End a rule for good; an open window closes as it would have by itself."""
        path = f"{kind_path(BURST, key)}/actions/end"
        session.out.item(BURST, session.client.post(path, {"reason": reason}), describe.anything)


def _envelopes(app: typer.Typer) -> None:
    envelope = group(app, "envelope", "What tenants may hold, in versions (operators).")

    @command(envelope, "versions")
    def envelope_versions(session: Session, tenant: Tenant) -> None:
        """List the versions of a tenant's envelopes: in force, to come, called off."""
        path = f"{tenant_path(tenant)}/envelope-versions"
        show_list(session, ENVELOPE_VERSION, limit=None, everything=True, path=path)

    @command(envelope, "preview")
    def envelope_preview(
        session: Session,
        tenant: Tenant,
        resource_class: Class,
        nominal: Annotated[str, typer.Option("--nominal", help="Units that are its own.")],
        effective_from: Annotated[str | None, typer.Option("--from", help="None: now.")] = None,
        borrow: Annotated[str | None, typer.Option("--borrow", help="Units beyond it.")] = None,
        lend: Annotated[str | None, typer.Option("--lend", help="Units lent when unused.")] = None,
    ) -> None:
        """Show whom another envelope would touch. Nothing is changed."""
        body = {
            "nominal_milli": milli(nominal),
            **named(
                effective_from=effective_from,
                borrow_milli=None if borrow is None else milli(borrow),
                lend_milli=None if lend is None else milli(lend),
            ),
        }
        path = f"{tenant_path(tenant)}/envelopes/{segment(resource_class)}/preview"
        session.out.item(IMPACT, session.client.post(path, body), describe.anything)

    @command(envelope, "schedule")
    def envelope_schedule(
        session: Session,
        tenant: Tenant,
        resource_class: Class,
        nominal: Annotated[str, typer.Option("--nominal", help="Units that are its own.")],
        effective_from: Annotated[str, typer.Option("--from", help="A moment, as ISO 8601.")],
        reason: Reason,
        borrow: Annotated[str | None, typer.Option("--borrow", help="Units beyond it.")] = None,
        lend: Annotated[str | None, typer.Option("--lend", help="Units lent when unused.")] = None,
        on_excess: OnExcess = None,
        drain_after_s: Annotated[
            int | None, typer.Option("--drain-after-s", min=0, help="Before it is drained.")
        ] = None,
        seen: Annotated[str | None, typer.Option("--seen", help="The preview's digest.")] = None,
    ) -> None:
        """Set an envelope from a moment on; one in the past is in force at once."""
        body = {
            "nominal_milli": milli(nominal),
            "effective_from": effective_from,
            "reason": reason,
            **named(
                borrow_milli=None if borrow is None else milli(borrow),
                lend_milli=None if lend is None else milli(lend),
                on_excess=on_excess,
                drain_after_s=drain_after_s,
                seen=seen,
            ),
        }
        path = f"{tenant_path(tenant)}/envelopes/{segment(resource_class)}/versions"
        session.out.item(ENVELOPE_VERSION, session.client.post(path, body), describe.anything)

    @command(envelope, "cancel")
    def envelope_cancel(session: Session, key: Id, reason: Reason) -> None:
        """Call off a version that is not in force yet."""
        path = f"{kind_path(ENVELOPE_VERSION, key)}/actions/cancel"
        answer = session.client.post(path, {"reason": reason})
        session.out.item(ENVELOPE_VERSION, answer, describe.anything)
