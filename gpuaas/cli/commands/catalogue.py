"""What is sold, at which price, how much of it is free now, and what does a code mean?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.commands import stock
from gpuaas.cli.commands.allocations import MaxDuration, seconds
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import OFFER, REASON, SKU
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.session import Session, kind_path


def register(app: typer.Typer) -> None:
    """Add `sku`, `offer` and `reason`."""
    _reasons(app)
    sku = group(app, "sku", "What is sold.")

    @command(sku, "list")
    def sku_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List what is sold, with the price per hour."""
        show_list(session, SKU, limit=limit, everything=everything)

    @command(sku, "describe")
    def sku_describe(session: Session, name: Annotated[str, typer.Argument(metavar="SKU")]) -> None:
        """Show one SKU."""
        session.out.item(SKU, session.client.get(kind_path(SKU, name)), describe.anything)

    stock.skus(sku)

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


def _reasons(app: typer.Typer) -> None:
    reason = group(app, "reason", "Reason codes: what each refusal and wait means.")

    @command(reason, "list")
    def reason_list(
        session: Session,
        find: Annotated[
            str, typer.Option("--find", help="Only codes that have these words.", metavar="WORDS")
        ] = "",
        limit: Limit = None,
    ) -> None:
        """List every code, with what it means and what would help."""
        words = find.lower()
        show_list(
            session,
            REASON,
            limit=limit,
            everything=True,
            keep=lambda one: words in f"{one['code']} {one['title']} {one['unblock']}".lower(),
        )

    @command(reason, "describe")
    def reason_describe(
        session: Session, code: Annotated[str, typer.Argument(metavar="CODE")]
    ) -> None:
        """Say what a code means, and what would help at the command line."""
        session.out.item(REASON, session.client.get(kind_path(REASON, code)), describe.reason)
