"""How are pools, families and SKUs renamed, and how do they end?"""

from typing import Annotated, Any

import typer

from gpuaas.cli import describe
from gpuaas.cli.commands.tenancy import Reason, Yes
from gpuaas.cli.flags import command
from gpuaas.cli.kinds import FAMILY, POOL, SKU
from gpuaas.cli.output import Column, Kind
from gpuaas.cli.session import Session, kind_path

Name = Annotated[str, typer.Argument(metavar="NAME")]
NewTitle = Annotated[str, typer.Option("--title", help="For people; empty: the name.")]
Why = Annotated[str, typer.Option("--reason", help="Kept in the record.")]
USE = Kind(
    "use",
    (
        Column("WHAT", lambda item: str(item["what"])),
        Column("NOW", lambda item: str(item["now"])),
        Column("EVER", lambda item: str(item["ever"])),
    ),
    key="what",
)


def _renamed(session: Session, kind: Kind, name: str, body: dict[str, Any]) -> None:
    answer = session.client.put(f"{kind_path(kind, name)}/title", body)
    session.out.item(kind, answer, describe.anything)


def _uses(session: Session, kind: Kind, name: str) -> None:
    session.out.items(USE, session.client.get(f"{kind_path(kind, name)}/uses")["uses"])


def _retired(session: Session, kind: Kind, name: str, reason: str, *, yes: bool) -> None:
    session.confirm(f"Retire {kind.name} {name}?", yes=yes)
    path = f"{kind_path(kind, name)}/actions/retire"
    session.out.item(kind, session.client.post(path, {"reason": reason}), describe.anything)


def _removed(session: Session, kind: Kind, name: str, *, yes: bool) -> None:
    session.confirm(f"Remove {kind.name} {name}?", yes=yes)
    session.client.delete(kind_path(kind, name))
    session.out.say(f"{kind.name} {name} is gone")


def of_pools(pool: typer.Typer) -> None:
    """Add the commands to `pool`."""

    @command(pool, "rename")
    def pool_rename(session: Session, name: Name, title: NewTitle, reason: Why = "") -> None:
        """Give a pool another title; its name is for good."""
        _renamed(session, POOL, name, {"title": title, "reason": reason})

    @command(pool, "uses")
    def pool_uses(session: Session, name: Name) -> None:
        """Count what uses a pool now, and what ever did."""
        _uses(session, POOL, name)

    @command(pool, "retire")
    def pool_retire(session: Session, name: Name, reason: Reason, yes: Yes = False) -> None:
        """Let no host into a pool any more; refused while something is in it."""
        _retired(session, POOL, name, reason, yes=yes)

    @command(pool, "remove")
    def pool_remove(session: Session, name: Name, yes: Yes = False) -> None:
        """Take away a pool that nothing ever used."""
        _removed(session, POOL, name, yes=yes)


def of_families(family: typer.Typer) -> None:
    """Add the commands to `family`."""

    @command(family, "rename")
    def family_rename(
        session: Session,
        name: Name,
        title: NewTitle,
        gpu_model: Annotated[str | None, typer.Option("--gpu-model", help="For people.")] = None,
        reason: Why = "",
    ) -> None:
        """Give a family another title; its name is for good."""
        body: dict[str, Any] = {"title": title, "reason": reason}
        if gpu_model is not None:
            body["gpu_model"] = gpu_model
        _renamed(session, FAMILY, name, body)

    @command(family, "uses")
    def family_uses(session: Session, name: Name) -> None:
        """Count what uses a family now, and what ever did."""
        _uses(session, FAMILY, name)

    @command(family, "retire")
    def family_retire(session: Session, name: Name, reason: Reason, yes: Yes = False) -> None:
        """Approve no host as it any more; refused while hosts or SKUs are of it."""
        _retired(session, FAMILY, name, reason, yes=yes)

    @command(family, "remove")
    def family_remove(session: Session, name: Name, yes: Yes = False) -> None:
        """Take away a family that nothing ever used."""
        _removed(session, FAMILY, name, yes=yes)


def of_skus(sku: typer.Typer) -> None:
    """Add the commands to `sku`."""

    @command(sku, "rename")
    def sku_rename(
        session: Session,
        name: Name,
        title: NewTitle,
        description: Annotated[str | None, typer.Option("--description")] = None,
        reason: Why = "",
    ) -> None:
        """Give a SKU another title (operators); its name is for good."""
        body: dict[str, Any] = {"title": title, "reason": reason}
        if description is not None:
            body["description"] = description
        _renamed(session, SKU, name, body)

    @command(sku, "uses")
    def sku_uses(session: Session, name: Name) -> None:
        """Count what uses a SKU now, and what ever did (operators)."""
        _uses(session, SKU, name)

    @command(sku, "remove")
    def sku_remove(session: Session, name: Name, yes: Yes = False) -> None:
        """Take away a SKU that is not sold and that nothing ever used (operators)."""
        _removed(session, SKU, name, yes=yes)
