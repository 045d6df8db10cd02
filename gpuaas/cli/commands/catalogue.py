"""What is sold, at which price, and how much of it is free now?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.commands.allocations import MaxDuration, seconds
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import OFFER, SKU
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.session import Session, kind_path


def register(app: typer.Typer) -> None:
    """Add `sku` and `offer`."""
    sku = group(app, "sku", "What is sold.")

    @command(sku, "list")
    def sku_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List what is sold, with the price per hour."""
        show_list(session, SKU, limit=limit, everything=everything)

    @command(sku, "describe")
    def sku_describe(session: Session, name: Annotated[str, typer.Argument(metavar="SKU")]) -> None:
        """Show one SKU."""
        session.out.item(SKU, session.client.get(kind_path(SKU, name)), describe.anything)

    @command(app, "offer")
    def offer(
        session: Session,
        shape: Annotated[
            str | None,
            typer.Option("--shape", help="Only gpu_slice, baremetal, mig or gpu_share."),
        ] = None,
        max_duration: MaxDuration = "",
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """Show what can be had now: price, units available, and the largest single fit.

        A lease without an end keeps clear of announced maintenance; one with --max-duration fits
        before it.
        """
        show_list(
            session,
            OFFER,
            max_duration_s=seconds(max_duration),
            limit=limit,
            everything=everything,
            keep=lambda item: shape is None or item.get("shape") == shape,
        )
