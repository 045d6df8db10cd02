"""What binds placement, and by which weights is room valued: shown, previewed, set."""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.commands.tenancy import Reason
from gpuaas.cli.flags import command, group
from gpuaas.cli.output import Kind, column
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session

TERMS = Kind(
    "placement-terms",
    (
        column("ABOUT"),
        column("VERSION"),
        column("ALONE"),
        column("OWN"),
        column("DRIVER MIN", "driver_min"),
        column("DRIVER BELOW", "driver_below"),
        column("RUNTIME MIN", "runtime_min"),
        column("BY", "set_by.name"),
        column("REASON", wide=True),
        column("TENANTS", wide=True),
    ),
    key="about",
    path="/placement-terms",
    paged=False,
)
PREVIEW = Kind("terms-preview", (column("DIGEST"), column("RUNNING")), key="digest")
SCORING = Kind(
    "scoring",
    (
        column("NUMBER"),
        column("GAP"),
        column("FRAGMENT"),
        column("STRANDED"),
        column("BROKEN"),
        column("BY", "set_by.name"),
        column("REASON"),
    ),
    key="number",
    path="/scoring",
    paged=False,
)
Noun = Annotated[str, typer.Argument(metavar="sku|tier|pool")]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Alone = Annotated[str, typer.Option("--alone", help="shares, wiring or node.")]
OwnTerm = Annotated[str, typer.Option("--own", help="with or apart from the tenant's own.")]
DriverMin = Annotated[str, typer.Option("--driver-min", help="Least driver version.")]
DriverBelow = Annotated[str, typer.Option("--driver-below", help="First one that is too new.")]
RuntimeMin = Annotated[str, typer.Option("--runtime-min", help="Least runtime version.")]
Tenants = Annotated[
    list[str] | None, typer.Option("--tenant", help="Id; the pool is only for these.")
]
Weight = Annotated[int, typer.Option(min=0, help="In thousandths.")]


def register(app: typer.Typer) -> None:
    """Add `placement-terms` and `scoring`."""
    _terms(group(app, "placement-terms", "What binds SKUs, tiers and pools (operators)."))
    _scoring(group(app, "scoring", "The weights by which room is valued (operators)."))


def _terms(terms: typer.Typer) -> None:
    @command(terms, "list")
    def terms_list(session: Session) -> None:
        """List the terms that were set, by whom and why."""
        session.out.items(TERMS, session.client.get(TERMS.path)["items"])

    @command(terms, "describe")
    def terms_describe(session: Session, noun: Noun, name: Name) -> None:
        """Show what binds one SKU, tier or pool, and what bound it before."""
        session.out.item(TERMS, session.client.get(_path(noun, name)), describe.anything)

    @command(terms, "preview")
    def terms_preview(
        session: Session,
        noun: Noun,
        name: Name,
        alone: Alone = "shares",
        own: OwnTerm = "",
        driver_min: DriverMin = "",
        driver_below: DriverBelow = "",
        runtime_min: RuntimeMin = "",
        tenant: Tenants = None,
    ) -> None:
        """Show what these terms would touch. What is left out binds nothing. Nothing is changed."""
        body = _given(alone, own, driver_min, driver_below, runtime_min, tenant)
        shown = session.client.post(f"{_path(noun, name)}/actions/preview", body)
        session.out.item(PREVIEW, shown, describe.anything)

    @command(terms, "set")
    def terms_set(
        session: Session,
        noun: Noun,
        name: Name,
        seen: Annotated[str, typer.Option("--seen", help="The digest of the preview.")],
        reason: Reason,
        alone: Alone = "shares",
        own: OwnTerm = "",
        driver_min: DriverMin = "",
        driver_below: DriverBelow = "",
        runtime_min: RuntimeMin = "",
        tenant: Tenants = None,
    ) -> None:
        """Set all terms, when what they touch is still what was looked at."""
        body = _given(alone, own, driver_min, driver_below, runtime_min, tenant)
        body |= {"seen": seen, "reason": reason}
        session.out.item(TERMS, session.client.put(_path(noun, name), body), describe.anything)


def _given(
    alone: str, own: str, least: str, below: str, runtime: str, tenants: list[str] | None
) -> Json:
    return {
        "alone": alone,
        "own": own,
        "driver_min": least,
        "driver_below": below,
        "runtime_min": runtime,
        "tenants": tenants or [],
    }


def _path(noun: str, name: str) -> str:
    return f"{TERMS.path}/{segment(noun)}/{segment(name)}"


def _scoring(scoring: typer.Typer) -> None:
    @command(scoring, "list")
    def scoring_list(session: Session) -> None:
        """List the versions of the weights, that in force first."""
        session.out.items(SCORING, session.client.get(SCORING.path)["items"])

    @command(scoring, "set")
    def scoring_set(
        session: Session,
        reason: Reason,
        gap: Weight,
        fragment: Weight,
        stranded: Weight,
        broken: Weight,
    ) -> None:
        """Set new weights; what is placed from half a minute on is chosen by them."""
        body = {"gap": gap, "fragment": fragment, "stranded": stranded, "broken": broken}
        answer = session.client.post(SCORING.path, {**body, "reason": reason})
        session.out.item(SCORING, answer, describe.anything)
