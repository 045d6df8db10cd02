"""How does every list command page through its items?"""

from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

import typer

from gpuaas.cli.client import PAGE_LIMIT
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session

Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, help=f"At most this many (default {PAGE_LIMIT}).", metavar="N"),
]
State = Annotated[str | None, typer.Option("--state", help="Only this state.")]
All = Annotated[bool, typer.Option("--all", help="Everything, page after page.")]


def show_list(
    session: Session,
    kind: Kind,
    *,
    limit: int | None,
    everything: bool,
    path: str = "",
    keep: Callable[[Json], bool] | None = None,
    **filters: Any,
) -> None:
    """Print a listing. With neither --all nor --limit one page is shown, and more is announced."""
    where = path or kind.path
    wanted = keep or (lambda item: True)
    if not kind.paged:
        whole = session.client.whole(where, **filters)
        session.out.items(kind, islice(filter(wanted, whole), limit))
        return
    if everything or limit is not None:
        # A filter of our own may need more of the server's items than it lets through.
        asked = None if everything or keep else limit
        found = filter(wanted, session.client.items(where, limit=asked, **filters))
        session.out.items(kind, islice(found, limit))
        return
    page = session.client.page(where, limit=PAGE_LIMIT, **filters)
    session.out.items(kind, filter(wanted, page.items))
    if page.next:
        session.out.say("there is more: --all or --limit N")
