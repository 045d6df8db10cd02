"""What happened lately, and what happens now?"""

from collections.abc import Iterator
from typing import Annotated

import typer

from gpuaas.cli.flags import command
from gpuaas.cli.kinds import EVENT, target
from gpuaas.cli.listing import Limit
from gpuaas.cli.output import Output
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session

POLL_S = 2.0
PAGE = 200


def register(app: typer.Typer) -> None:
    """Add `events`."""

    @command(app, "events")
    def events(
        session: Session,
        watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on as they happen.")] = False,
        after: Annotated[
            int | None, typer.Option("--after", min=0, help="Only after this sequence number.")
        ] = None,
        about: Annotated[
            str | None, typer.Option("--for", help="Only those about kind/ID.", metavar="KIND/ID")
        ] = None,
        limit: Limit = None,
    ) -> None:
        """Show events in order of sequence; with -w wait for more until interrupted.

        JSON and YAML show one document an event while watching.
        """
        found = _feed(session, after, watch=watch)
        if about is not None:
            found = (item for item in found if target(item, "subject") == about)
        if not watch:
            rows = [item for _, item in zip(range(limit or PAGE), found, strict=False)]
            session.out.items(EVENT, rows)
            return
        for number, item in enumerate(found, 1):
            _print_one(session, item, first=number == 1)
            if number == limit:
                return


def _feed(session: Session, after: int | None, *, watch: bool) -> Iterator[Json]:
    """Events by rising sequence. The sequence is the place in the sealed chain, without gaps."""
    place = after
    while True:
        page = session.client.page("/events", limit=PAGE, after=place)
        for item in page.items:
            yield item
            sequence = item.get("seq")
            if isinstance(sequence, int):
                place = sequence
        if page.items and (page.next or len(page.items) >= PAGE):
            continue
        if not watch:
            return
        session.client.pause(POLL_S)


def _print_one(session: Session, item: Json, *, first: bool) -> None:
    out: Output = session.out
    out.headers = first and not session.flags.no_headers
    if out.form in {"json", "yaml"} and not out.columns:
        out.document(item)
    else:
        out.items(EVENT, [item])
    out.stdout.flush()
