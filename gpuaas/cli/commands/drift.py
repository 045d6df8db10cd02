"""What can an operator do where hosts differ from what is wanted, and where automation is held?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.flags import command, group
from gpuaas.cli.output import Column, Kind, column
from gpuaas.cli.session import Session

DRIFT = Kind(
    "drift",
    (
        column("ID"),
        column("CODE"),
        Column("NODE", lambda item: str(item["node"]["name"])),
        column("SUBJECT"),
        column("STATE"),
        column("ACTS", "actor"),
        column("SINCE"),
        column("SEVERITY", wide=True),
        column("OUTCOME", wide=True),
        column("TRIES", "attempts", wide=True),
        column("DETAIL", wide=True),
    ),
    key="id",
    path="/drift",
)
HELD = Kind(
    "held action",
    (
        column("ID"),
        column("ACTION"),
        Column("NODE", lambda item: str(item["node"]["name"])),
        column("POOL"),
        column("CODE"),
        column("STATE"),
        column("REASON"),
        column("SINCE"),
        column("ASKED", wide=True),
    ),
    key="id",
    path="/breaker/held",
)
Id = Annotated[str, typer.Argument(metavar="ID")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]


def register(app: typer.Typer) -> None:
    """Add `drift` and `breaker`."""
    _drift(app)
    _breaker(app)


def _drift(app: typer.Typer) -> None:
    drift = group(app, "drift", "Where hosts differ from what is wanted of them (operators).")

    @command(drift, "list")
    def drift_list(
        session: Session,
        state: Annotated[str, typer.Option("--state", help="standing, closed, …")] = "standing",
        kind: Annotated[str, typer.Option("--kind", help="One kind only.")] = "",
        node: Annotated[str, typer.Option("--node", help="One node only.")] = "",
    ) -> None:
        """Show differences, newest first: those that stand, unless told otherwise."""
        asked = {"state": "" if state == "all" else state, "kind": kind, "node": node}
        wanted = {name: value for name, value in asked.items() if value}
        session.out.items(DRIFT, session.client.whole(DRIFT.path, **wanted))

    @command(drift, "accept")
    def drift_accept(session: Session, drift: Id, reason: Reason) -> None:
        """Let a difference stand: it counts no more, and nothing is changed."""
        _send(session, DRIFT, drift, "accept", reason)

    @command(drift, "remove")
    def drift_remove(session: Session, drift: Id, reason: Reason) -> None:
        """Release an ended allocation's machine anew, or give up an allocation that is lost."""
        _send(session, DRIFT, drift, "remove", reason)


def _breaker(app: typer.Typer) -> None:
    breaker = group(app, "breaker", "What automation wants to do and may not yet (operators).")

    @command(breaker, "list")
    def breaker_list(session: Session) -> None:
        """Show what is held."""
        session.out.items(HELD, session.client.whole(HELD.path))

    @command(breaker, "allow")
    def breaker_allow(session: Session, held: Id, reason: Reason) -> None:
        """Let a held action go on when it is next asked for."""
        _send(session, HELD, held, "allow", reason)

    @command(breaker, "reject")
    def breaker_reject(session: Session, held: Id, reason: Reason) -> None:
        """Reject a held action for one window of its pool."""
        _send(session, HELD, held, "reject", reason)

    @command(breaker, "set")
    def breaker_set(
        session: Session,
        pool: Annotated[str, typer.Argument(metavar="POOL")],
        percent: Annotated[int, typer.Option("--percent", help="Of the pool's nodes.")],
        reason: Reason,
        floor: Annotated[int, typer.Option("--floor", help="Nodes at least.")] = 1,
        window: Annotated[int, typer.Option("--window", help="Seconds.")] = 3600,
    ) -> None:
        """Set how many of a pool's nodes automation may act upon in a window."""
        body = {"percent": percent, "floor": floor, "window_s": window, "reason": reason}
        answer = session.client.put(f"/pools/{segment(pool)}/breaker", body)
        session.out.item(HELD, answer, describe.anything)


def _send(session: Session, kind: Kind, found: str, action: str, reason: str) -> None:
    answer = session.client.post(
        f"{kind.path}/{segment(found)}/actions/{action}", {"reason": reason}
    )
    session.out.item(kind, answer, describe.anything)
