"""What do nodes need before they are sold: shown, previewed, set?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.commands.tenancy import Reason
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command, group
from gpuaas.cli.output import Column, Kind, column
from gpuaas.cli.problems import CliError, Json
from gpuaas.cli.session import Session


def _needs(item: Json) -> str:
    found = []
    for need in item.get("required") or ():
        end = "" if need["valid_s"] is None else f"={need['valid_s']}"
        found.append(f"{need['capability']}:{need['check']}{end}")
    return " ".join(found) or "-"


TERMS = Kind(
    "readiness-terms",
    (
        column("FAMILY"),
        column("VERSION"),
        Column("NEEDS", _needs),
        column("DRIVER MIN", "driver_min"),
        column("FIRMWARE MIN", "firmware_min"),
        column("AUTO", "auto_promote"),
        column("BY", "set_by.name"),
        column("REASON", wide=True),
    ),
    key="family",
    path="/readiness-terms",
    paged=False,
)
PREVIEW = Kind("readiness-preview", (column("DIGEST"), column("DEMOTED")), key="digest")
Family = Annotated[str, typer.Argument(metavar="FAMILY|any")]
Needs = Annotated[
    list[str] | None,
    typer.Option(
        "--need",
        metavar="SHAPE:CHECK[=SECONDS]",
        help="Such as slices:driver=2592000; repeat. Without seconds: until contradicted.",
    ),
]
DriverMin = Annotated[str, typer.Option("--driver-min", help="Least driver version.")]
FirmwareMin = Annotated[str, typer.Option("--firmware-min", help="Least VBIOS.")]
Auto = Annotated[bool, typer.Option("--auto-promote", help="Promote fit nodes unasked.")]


def register(app: typer.Typer) -> None:
    """Add `readiness-terms`."""
    terms = group(app, "readiness-terms", "What nodes need before they are sold (operators).")

    @command(terms, "list")
    def terms_list(session: Session) -> None:
        """List what each family's nodes need, who set it and why."""
        session.out.items(TERMS, session.client.get(TERMS.path)["items"])

    @command(terms, "describe")
    def terms_describe(session: Session, family: Family) -> None:
        """Show what one family's nodes need, and what they needed before."""
        session.out.item(TERMS, session.client.get(_path(family)), describe.anything)

    @command(terms, "preview")
    def terms_preview(
        session: Session,
        family: Family,
        need: Needs = None,
        driver_min: DriverMin = "",
        firmware_min: FirmwareMin = "",
        auto_promote: Auto = False,
    ) -> None:
        """Show which nodes these terms would demote or promote. Nothing is changed."""
        body = _given(need, driver_min, firmware_min, auto_promote)
        shown = session.client.post(f"{_path(family)}/actions/preview", body)
        session.out.item(PREVIEW, shown, describe.anything)

    @command(terms, "set")
    def terms_set(
        session: Session,
        family: Family,
        seen: Annotated[str, typer.Option("--seen", help="The digest of the preview.")],
        reason: Reason,
        need: Needs = None,
        driver_min: DriverMin = "",
        firmware_min: FirmwareMin = "",
        auto_promote: Auto = False,
    ) -> None:
        """Set all terms, when whom they move is still what was looked at."""
        body = _given(need, driver_min, firmware_min, auto_promote)
        body |= {"seen": seen, "reason": reason}
        session.out.item(TERMS, session.client.put(_path(family), body), describe.anything)

    @command(terms, "preview-removal")
    def terms_preview_removal(session: Session, family: Family) -> None:
        """Show which nodes would move without the family's own terms. Nothing is changed."""
        shown = session.client.post(f"{_path(family)}/actions/preview-removal", {})
        session.out.item(PREVIEW, shown, describe.anything)

    @command(terms, "remove")
    def terms_remove(
        session: Session,
        family: Family,
        seen: Annotated[str, typer.Option("--seen", help="The digest of the preview.")],
        reason: Reason,
    ) -> None:
        """Remove a family's own terms: those of any hold then, or the product's."""
        body: Json = {"seen": seen, "reason": reason}
        path = f"{_path(family)}/actions/remove"
        session.out.item(TERMS, session.client.post(path, body), describe.anything)


def _path(family: str) -> str:
    return f"{TERMS.path}/{segment(family)}"


def _given(needs: list[str] | None, driver: str, firmware: str, auto: bool) -> Json:
    return {
        "required": [_need(text) for text in needs or []],
        "driver_min": driver,
        "firmware_min": firmware,
        "auto_promote": auto,
    }


def _need(text: str) -> Json:
    shape, colon, rest = text.partition(":")
    check, equals, seconds = rest.partition("=")
    if not (colon and check) or (equals and not seconds.isdecimal()):
        raise CliError(f"--need {text!r}: SHAPE:CHECK or SHAPE:CHECK=SECONDS", Exit.USAGE)
    return {"capability": shape, "check": check, "valid_s": int(seconds) if equals else None}
