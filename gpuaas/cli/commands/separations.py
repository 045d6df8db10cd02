"""Which tenants are never placed on one host: shown, looked at first, set, removed?"""

from typing import Annotated

import typer

from gpuaas.cli import describe, values
from gpuaas.cli.commands.tenancy import Name, Reason
from gpuaas.cli.flags import command, group
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.output import Column, Kind, column
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path


def _members(item: Json) -> str:
    return " ".join(values.text(one["slug"]) for one in item["tenants"])


SEPARATION = Kind(
    "separation",
    (
        column("NAME"),
        Column("TENANTS", _members),
        column("SHARED HOSTS", "together"),
        column("VERSION"),
        column("REASON"),
    ),
    key="name",
    path="/separations",
)
PREVIEW = Kind("separation-preview", (column("NAME"), column("DIGEST")), key="digest")
Members = Annotated[
    list[str], typer.Option("--tenant", help="Slug or id; repeat: two at least.", metavar="SLUG|ID")
]


def register(app: typer.Typer) -> None:
    """Add `separation`."""
    separation = group(app, "separation", "Tenants that never share a host (operators).")

    @command(separation, "list")
    def separation_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List who is kept apart, and how many hosts they share still."""
        show_list(session, SEPARATION, limit=limit, everything=everything)

    @command(separation, "show")
    def separation_show(session: Session, name: Name) -> None:
        """Show one set of tenants that are kept apart."""
        found = session.client.get(kind_path(SEPARATION, name))
        session.out.item(SEPARATION, found, describe.anything)

    @command(separation, "set")
    def separation_set(
        session: Session,
        name: Name,
        tenant: Members,
        reason: Reason,
        seen: Annotated[
            str, typer.Option("--seen", help="The digest of the dry run; set only if it holds.")
        ] = "",
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show what it would come to.")
        ] = False,
    ) -> None:
        """Keep these tenants apart, and of this set nobody else. What runs stays where it is."""
        body: Json = {"tenants": tenant, "reason": reason}
        path = kind_path(SEPARATION, name)
        if dry_run:
            preview = session.client.put(path, body, params={"dry_run": "server"})
            session.out.item(PREVIEW, preview, describe.anything)
            return
        done = session.client.put(path, {**body, "seen": seen or None})
        session.out.item(SEPARATION, done, describe.anything)

    @command(separation, "remove")
    def separation_remove(session: Session, name: Name, reason: Reason) -> None:
        """Let the tenants of a set share hosts again."""
        session.client.delete(kind_path(SEPARATION, name), reason=reason)
        session.out.say(f"separation {name} is gone")
