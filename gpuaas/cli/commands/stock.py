"""What an operator lays in before hosts come: pools, kinds of hosts, images, and what is sold."""

from typing import Annotated, Any

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.commands import stock_ends
from gpuaas.cli.commands.authority import milli
from gpuaas.cli.commands.tenancy import Reason, Yes
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import FAMILY, IMAGE, POOL, SKU
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.problems import UsageError
from gpuaas.cli.session import Session, kind_path

Name = Annotated[str, typer.Argument(metavar="NAME")]
Title = Annotated[str, typer.Option("--title", help="For people; the name without it.")]
Why = Annotated[str, typer.Option("--reason", help="Kept in the record.")]
Price = Annotated[
    str,
    typer.Option("--price-hour", help="Of one slot, part or node: 2.40.", metavar="AMOUNT"),
]
MICRO = 1_000_000


def register(app: typer.Typer) -> None:
    """Add `pool`, `family` and `image`."""
    _pools(app)
    _families(app)
    _images(app)


def _pools(app: typer.Typer) -> None:
    pool = group(app, "pool", "Sets of hosts with one queue (operators).")

    @command(pool, "list")
    def pool_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List pools, with the number of their hosts."""
        show_list(session, POOL, limit=limit, everything=everything)

    @command(pool, "create")
    def pool_create(session: Session, name: Name, title: Title = "", reason: Why = "") -> None:
        """Make a pool."""
        body = {"name": name, "title": title, "reason": reason}
        session.out.item(POOL, session.client.post(POOL.path, body), describe.anything)

    stock_ends.of_pools(pool)


def _families(app: typer.Typer) -> None:
    family = group(app, "family", "Kinds of hosts, as which they are approved (operators).")

    @command(family, "list")
    def family_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List kinds of hosts, with the number of their hosts."""
        show_list(session, FAMILY, limit=limit, everything=everything)

    @command(family, "create")
    def family_create(
        session: Session,
        name: Name,
        slots: Annotated[int, typer.Option("--slots", min=1, help="Of each of its hosts.")],
        gpu_model: Annotated[str, typer.Option("--gpu-model", help="For people.")] = "",
        title: Title = "",
        reason: Why = "",
    ) -> None:
        """Name a kind of hosts, all with so many slots."""
        body = {
            "name": name,
            "slots": slots,
            "gpu_model": gpu_model,
            "title": title,
            "reason": reason,
        }
        session.out.item(FAMILY, session.client.post(FAMILY.path, body), describe.anything)

    stock_ends.of_families(family)


def _images(app: typer.Typer) -> None:
    image = group(app, "image", "What leases start from.")

    @command(image, "list")
    def image_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List images in use."""
        show_list(session, IMAGE, limit=limit, everything=everything)

    @command(image, "create")
    def image_create(
        session: Session,
        name: Name,
        shape: Annotated[
            list[str], typer.Option("--shape", help="gpu_slice or baremetal; repeat for both.")
        ],
        username: Annotated[
            str, typer.Option("--username", help="The account that SSH keys are put into.")
        ] = "ubuntu",
        reference: Annotated[
            str, typer.Option("--reference", help="Where hosts have it from, for people.")
        ] = "",
        title: Title = "",
        reason: Why = "",
    ) -> None:
        """Offer an image that hosts have under this name (operators)."""
        body = {
            "name": name,
            "shapes": shape,
            "username": username,
            "reference": reference,
            "title": title,
            "reason": reason,
        }
        session.out.item(IMAGE, session.client.post(IMAGE.path, body), describe.anything)

    @command(image, "retire")
    def image_retire(session: Session, name: Name, reason: Reason, yes: Yes = False) -> None:
        """No lease starts from it any more; what runs goes on (operators)."""
        session.confirm(f"Retire image {name}?", yes=yes)
        session.client.post(f"/images/{segment(name)}/actions/retire", {"reason": reason})
        session.out.say(f"image {name} is retired")


def micro(amount: str) -> int:
    """Millionths of an amount such as 2.40. Raises UsageError."""
    whole, _, rest = amount.partition(".")
    if not (whole.isdecimal() and whole.isascii() and len(whole) <= 6):
        raise UsageError(f"{amount!r} is no price; give an amount such as 2.40")
    if rest and not (rest.isdecimal() and rest.isascii() and len(rest) <= 6):
        raise UsageError(f"{amount!r} is no price; at most six digits after the point")
    return int(whole) * MICRO + int(rest.ljust(6, "0") or 0)


def skus(sku: typer.Typer) -> None:
    """Add what operators do to SKUs."""

    @command(sku, "create")
    def sku_create(
        session: Session,
        name: Name,
        shape: Annotated[
            str, typer.Option("--shape", help="gpu_slice, baremetal, mig or gpu_share.")
        ],
        family: Annotated[str, typer.Option("--family", help="Of which hosts; see `family list`.")],
        resource_class: Annotated[
            str, typer.Option("--class", help="What it counts as in envelopes; made if new.")
        ],
        price_hour: Price,
        slots_min: Annotated[int, typer.Option("--slots-min", min=1, help="Of a slice.")] = 1,
        slots_max: Annotated[int, typer.Option("--slots-max", min=1, help="Of a slice.")] = 1,
        units: Annotated[
            str,
            typer.Option("--units", help="Quota of one slot, part or node, such as 8."),
        ] = "1",
        pool: Annotated[str, typer.Option("--pool", help="Where it runs.")] = "default",
        exclusive_nic: Annotated[
            bool, typer.Option("--exclusive-nic", help="Each slot has a NIC of its own.")
        ] = False,
        part_profile: Annotated[
            str, typer.Option("--part-profile", help="Of a mig SKU, such as 1g.10gb.")
        ] = "",
        part_milli: Annotated[
            int | None, typer.Option("--part-milli", help="Thousandths of a GPU, of a gpu_share.")
        ] = None,
        part_memory_mib: Annotated[
            int | None, typer.Option("--part-memory-mib", help="MiB of its memory, of a gpu_share.")
        ] = None,
        title: Title = "",
    ) -> None:
        """Draft a SKU (operators). Nothing is sold of it until it is published."""
        body: dict[str, Any] = {
            "name": name,
            "title": title or name,
            "shape": shape,
            "family": family,
            "resource_class": resource_class,
            "hour_micro": micro(price_hour),
            "slots_min": slots_min,
            "slots_max": slots_max,
            "units_milli": milli(units),
            "pool": pool,
            "exclusive_nic": exclusive_nic,
            "part_profile": part_profile,
            "part_milli": part_milli,
            "part_memory_mib": part_memory_mib,
        }
        session.out.item(SKU, session.client.post(SKU.path, body), describe.anything)

    @command(sku, "publish")
    def sku_publish(session: Session, name: Name, reason: Reason) -> None:
        """Sell a draft (operators)."""
        path = f"{kind_path(SKU, name)}/actions/publish"
        session.out.item(SKU, session.client.post(path, {"reason": reason}), describe.anything)

    @command(sku, "retire")
    def sku_retire(session: Session, name: Name, reason: Reason, yes: Yes = False) -> None:
        """Sell it no more; what runs goes on (operators)."""
        session.confirm(f"Retire SKU {name}?", yes=yes)
        path = f"{kind_path(SKU, name)}/actions/retire"
        session.out.item(SKU, session.client.post(path, {"reason": reason}), describe.anything)

    @command(sku, "price")
    def sku_price(session: Session, name: Name, price_hour: Price) -> None:
        """Set the price from now on (operators); leases keep the price they were made at."""
        path = f"{kind_path(SKU, name)}/price"
        session.out.item(
            SKU, session.client.put(path, {"hour_micro": micro(price_hour)}), describe.anything
        )

    stock_ends.of_skus(sku)
