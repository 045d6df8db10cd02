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


def _part_fits(item: Json) -> str:
    return " ".join(f"{f['part']}:{f['now']}/{f['ideal']}" for f in item.get("fits") or [])


def _part_stranded(item: Json) -> str:
    return ", ".join(f"{s['cause']} {s['milli']}" for s in item.get("stranded") or []) or "-"


PARTS = Kind(
    "part-fragmentation",
    (
        column("SKU"),
        column("PART"),
        column("CUT", "cut_slots"),
        column("IDLE/1000", "idle_milli"),
        column("OPEN/1000", "open_milli"),
        column("PARTS", "parts_now"),
        column("LARGEST", "largest_fit"),
        Column("STRANDED/1000", _part_stranded),
        Column("PART:FITS/IDEAL", _part_fits, True),
        column("POOL", wide=True),
        column("FAMILY", wide=True),
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

    @command(fragmentation, "parts")
    def fragmentation_parts(session: Session) -> None:
        """Show for each SKU that is a part of a GPU how many fit, and what is stranded of it."""
        session.out.items(PARTS, session.client.get(PARTS.path)["parts"])

    @command(fragmentation, "describe")
    def fragmentation_describe(
        session: Session, sku: Annotated[str, typer.Argument(metavar="SKU")]
    ) -> None:
        """Show one SKU: each size, how free slots are spread, each cause and what would help."""
        answer = session.client.get(FRAGMENTATION.path, sku=sku)
        if answer["items"]:
            session.out.item(FRAGMENTATION, answer["items"][0], account)
        elif answer["parts"]:
            session.out.item(PARTS, answer["parts"][0], part_account)
        else:
            raise CliError(f"no SKU {sku!r} is sold", Exit.NOT_FOUND)


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


def part_account(item: Json) -> Iterator[str]:
    """The account of a SKU that is a part, for people."""
    plain = {k: v for k, v in item.items() if not isinstance(v, list)}
    yield from describe.anything(plain)
    yield bold("Parts that fit")
    for fit in item["fits"]:
        yield f"  {values.text(fit['part'])}: {fit['now']} now, {fit['ideal']} at most if gathered"
    yield bold("Stranded")
    for part in item["stranded"]:
        gpus = values.units(part["milli"])
        yield f"  {gpus} GPUs: {values.text(part['cause'])}. {values.text(part['help'])}"
