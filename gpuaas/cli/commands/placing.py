"""What can an operator see of idle capacity that nobody can use, and do about it?"""

from collections.abc import Iterator
from typing import Annotated

import typer

from gpuaas.cli import describe, values
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command, group
from gpuaas.cli.output import Column, Kind, bold, column
from gpuaas.cli.problems import CliError, Json
from gpuaas.cli.session import Session


def _fits(item: Json) -> str:
    return " ".join(f"{f['size']}:{f['now']}/{f['ideal']}" for f in item.get("fits") or [])


def _stranded(item: Json) -> str:
    return ", ".join(f"{s['cause']} {s['slots']}" for s in item.get("stranded") or []) or "-"


FRAGMENTATION = Kind(
    "fragmentation",
    (
        column("SKU"),
        column("IDLE"),
        column("OPEN"),
        column("LARGEST", "largest_fit"),
        Column("SIZE:FITS/IDEAL", _fits),
        Column("STRANDED", _stranded),
        column("POOL", wide=True),
        column("FAMILY", wide=True),
        column("HOSTS", wide=True),
        column("SLOTS", wide=True),
    ),
    key="sku",
    path="/fragmentation",
    paged=False,
)


def register(app: typer.Typer) -> None:
    """Add `fragmentation`."""
    fragmentation = group(app, "fragmentation", "Idle capacity that cannot be used (operators).")

    @command(fragmentation, "list")
    def fragmentation_list(session: Session) -> None:
        """Show for each SKU what is idle, the largest request that fits, and what is stranded."""
        session.out.items(FRAGMENTATION, session.client.get(FRAGMENTATION.path)["items"])

    @command(fragmentation, "describe")
    def fragmentation_describe(
        session: Session, sku: Annotated[str, typer.Argument(metavar="SKU")]
    ) -> None:
        """Show one SKU: each size, how free slots are spread, each cause and what would help."""
        found = session.client.get(FRAGMENTATION.path, sku=sku)["items"]
        if not found:
            raise CliError(f"no SKU {sku!r} is sold", Exit.NOT_FOUND)
        session.out.item(FRAGMENTATION, found[0], account)


def account(item: Json) -> Iterator[str]:
    """One SKU's account for people."""
    plain = {k: v for k, v in item.items() if not isinstance(v, list)}
    yield from describe.anything(plain)
    yield bold("Requests that fit")
    for fit in item["fits"]:
        yield f"  {values.text(fit['size'])} slots: {fit['now']} now, {fit['ideal']} if gathered"
    yield bold("Hosts by open slots")
    for part in item["free_by_host"]:
        yield f"  {part['free']} open: {part['hosts']} hosts"
    yield bold("Stranded")
    for part in item["stranded"]:
        yield f"  {part['slots']} slots: {values.text(part['cause'])}. {values.text(part['help'])}"
