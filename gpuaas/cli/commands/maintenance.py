"""How are windows of maintenance planned, cards replaced, and notices read?"""

from collections.abc import Iterator
from typing import Annotated

import typer

from gpuaas.cli import describe, values
from gpuaas.cli.client import segment
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import NODE
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Column, Kind, bold, column
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path, strip_kind

WINDOW = Kind(
    "maintenance-window",
    (
        column("ID"),
        column("NODE", "node.name"),
        column("STATE"),
        Column("FROM", lambda item: values.clock_time(item.get("starts_at"))),
        Column("TO", lambda item: values.clock_time(item.get("ends_at"))),
        column("REASON"),
        column("PLAN", wide=True),
    ),
    path="/maintenance-windows",
    aliases=("window",),
)
NOTICE = Kind(
    "notice",
    (
        column("ID"),
        column("ALLOCATION", "allocation.name"),
        column("KIND"),
        Column("READ", lambda item: "yes" if item.get("acknowledged_at") else "no"),
        column("TEXT"),
    ),
    path="/notices",
)
REPLACEMENT = Kind(
    "replacement",
    (
        column("SLOT", "slot_index"),
        column("STATE"),
        column("OLD", "old_uuid"),
        column("SEEN", "seen_uuid"),
        column("REASON"),
    ),
)
MOVED = Kind(
    "move",
    (column("WORKLOAD"), column("REQUEST"), column("CODE"), column("DETAIL")),
    key="workload",
)
PLAN = Kind("drain-plan", (), key="node")

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]
Id = Annotated[str, typer.Argument(metavar="ID")]
Node = Annotated[str, typer.Argument(metavar="NODE")]
Index = Annotated[int, typer.Argument(metavar="SLOT", min=0)]


def register(app: typer.Typer) -> None:
    """Add `maintenance`, `card` and `notices`."""
    _windows(group(app, "maintenance", "Windows of maintenance (operators)."))
    _cards(group(app, "card", "Cards of a node that are replaced (operators)."))
    _notices(group(app, "notices", "What you were told about your allocations."))


def _windows(maintenance: typer.Typer) -> None:
    @command(maintenance, "list")
    def maintenance_list(
        session: Session,
        state: State = None,
        node: Annotated[str | None, typer.Option("--node", help="Only of this node.")] = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List the windows, newest first."""
        show_list(session, WINDOW, limit=limit, everything=everything, state=state, node=node)

    @command(maintenance, "plan")
    def maintenance_plan(
        session: Session,
        starts: Annotated[str, typer.Option("--from", help="Such as 2027-01-31T22:00:00Z.")],
        ends: Annotated[str, typer.Option("--to", help="Such as 2027-02-01T02:00:00Z.")],
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")] = "",
        node: Annotated[
            list[str] | None, typer.Option("--node", help="A node; repeat for more.")
        ] = None,
        pool: Annotated[str, typer.Option("--pool", help="All nodes of this pool.")] = "",
        zone: Annotated[str, typer.Option("--zone", help="All nodes of this zone.")] = "",
        rack: Annotated[str, typer.Option("--rack", help="All nodes of this rack.")] = "",
        announce: Annotated[
            bool, typer.Option("--announce", help="Tell the tenants now, not only when due.")
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show what it would touch.")
        ] = False,
    ) -> None:
        """Plan a window of each node: all of them, or none."""
        body: Json = {
            "nodes": node or [],
            "starts_at": starts,
            "ends_at": ends,
            **{k: v for k, v in (("pool", pool), ("zone", zone), ("rack", rack)) if v},
        }
        if dry_run:
            found = session.client.post(f"{WINDOW.path}/actions/preview", body)
            for one in found["nodes"]:
                session.out.item(PLAN, one, drain_plan)
            return
        made = session.client.post(WINDOW.path, {**body, "reason": reason, "announce": announce})
        session.out.items(WINDOW, made["items"])

    for verb, text in (
        ("announce", "Tell the tenants whom a planned window touches."),
        ("cancel", "Give a window up, also one that has begun; who was told of it is told."),
        ("end", "End a window before its time; its drain is lifted if the node is well."),
    ):
        _window_move(maintenance, verb, text)


def _window_move(maintenance: typer.Typer, verb: str, text: str) -> None:
    def move(session: Session, window: Id, reason: Reason) -> None:
        path = f"{WINDOW.path}/{segment(strip_kind(WINDOW, window))}/actions/{verb}"
        session.out.items(WINDOW, [session.client.post(path, {"reason": reason})])

    move.__doc__ = text
    command(maintenance, verb)(move)


def drain_plan(item: Json) -> Iterator[str]:
    """The plan of a drain for people."""
    yield bold(f"{values.text(item['node'])}: {values.text(item['words'])}")
    for one in item["allocations"]:
        where = f"to {values.text(one['to'])}" if one["to"] else ""
        why = f"no room: {values.text(one['code'])}" if one["code"] else ""
        when = f"at {values.clock_time(one['ends_at'])}" if one["ends_at"] else ""
        words = " ".join(filter(None, (one["fate"], when, where, why)))
        yield f"  {values.text(one['name'])} of {values.text(one['tenant'])}: {words}"


def _cards(card: typer.Typer) -> None:
    @command(card, "list")
    def card_list(
        session: Session, name: Node, limit: Limit = None, everything: All = False
    ) -> None:
        """List the cards of a node that were replaced."""
        path = f"{kind_path(NODE, name)}/replacements"
        show_list(session, REPLACEMENT, limit=limit, everything=everything, path=path)

    for verb, text in (
        ("replace", "Declare that a slot's card was replaced: the host looks anew."),
        ("approve", "Continue the slot with the card that was discovered in its place."),
        ("cancel", "Take the declaration back: the old card is there after all."),
    ):
        _card_move(card, verb, text)


def _card_move(card: typer.Typer, verb: str, text: str) -> None:
    def move(session: Session, name: Node, slot: Index, reason: Reason) -> None:
        path = f"{kind_path(NODE, name)}/actions/{verb}-card"
        made = session.client.post(path, {"slot_index": slot, "reason": reason})
        session.out.item(REPLACEMENT, made, describe.anything)

    move.__doc__ = text
    command(card, verb)(move)


def _notices(notices: typer.Typer) -> None:
    @command(notices, "list")
    def notices_list(
        session: Session,
        unread: Annotated[bool, typer.Option("--unread", help="Only what nobody read.")] = False,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List what you were told about your allocations, newest first."""
        only = "true" if unread else None
        show_list(session, NOTICE, limit=limit, everything=everything, unread=only)

    @command(notices, "acknowledge")
    def notices_acknowledge(session: Session, notice: Id) -> None:
        """Say that a notice was read."""
        path = f"{NOTICE.path}/{segment(strip_kind(NOTICE, notice))}/actions/acknowledge"
        session.out.item(NOTICE, session.client.post(path), describe.anything)
