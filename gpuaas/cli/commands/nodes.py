"""What can an operator see of the nodes, and do to them?"""

from typing import Annotated

import typer

from gpuaas.cli import describe, topology, values
from gpuaas.cli.commands import fitness
from gpuaas.cli.commands.maintenance import MOVED, PLAN, drain_plan
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import NODE, TASK
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path

JOIN_TOKEN = Kind("join-token", (), key="expires_at")

Reference = Annotated[str, typer.Argument(metavar="NODE")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]


_MOVES = {
    "maintain": "Take a node out for maintenance; what runs there goes on.",
    "quarantine": "Set a node apart, as one that is not to be trusted.",
    "restore": "Bring a node back.",
    "retire": "Take a node out for good.",
}


def register(app: typer.Typer) -> None:
    """Add `node`."""
    node = group(app, "node", "Nodes (operators).")
    _reading(node)
    _acting(node)
    fitness.register(node)


def _reading(node: typer.Typer) -> None:
    @command(node, "list")
    def node_list(
        session: Session,
        state: State = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List the nodes with their posture and free slots."""
        show_list(session, NODE, limit=limit, everything=everything, state=state)

    @command(node, "describe")
    def node_describe(session: Session, name: Reference) -> None:
        """Show one node."""
        session.out.item(NODE, session.client.get(kind_path(NODE, name)), describe.node)

    @command(node, "topology")
    def node_topology(session: Session, name: Reference) -> None:
        """Draw a node: NUMA nodes, switches, GPUs, NICs, and the state of each slot."""
        report = session.client.get(f"{kind_path(NODE, name)}/topology")
        if not session.out.for_people:
            session.out.item(NODE, report, describe.anything)
            return
        slots = session.client.whole(f"{kind_path(NODE, name)}/slots")
        for line in topology.draw(report, slots):
            session.out.line(line)

    @command(node, "tasks")
    def node_tasks(
        session: Session, name: Reference, limit: Limit = None, everything: All = False
    ) -> None:
        """List what the node was told to do."""
        path = f"{kind_path(NODE, name)}/tasks"
        show_list(session, TASK, limit=limit, everything=everything, path=path)


def _acting(node: typer.Typer) -> None:
    @command(node, "drain")
    def node_drain(
        session: Session,
        name: Reference,
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")] = "",
        slot: Annotated[int | None, typer.Option("--slot", min=0, help="Only this slot.")] = None,
        plan: Annotated[
            bool, typer.Option("--plan", help="Only show what becomes of what runs there.")
        ] = False,
    ) -> None:
        """Give the node, or one slot of it, no new work; what runs there goes on."""
        if plan:
            found = session.client.get(f"{kind_path(NODE, name)}/drain-plan")
            session.out.item(PLAN, found, drain_plan)
            return
        _act(session, name, "drain", {"reason": reason, **_slot(slot)})

    @command(node, "move")
    def node_move(session: Session, name: Reference, reason: Reason) -> None:
        """Move off a drained node what its tenants allow to be moved."""
        path = f"{kind_path(NODE, name)}/actions/move"
        session.out.items(MOVED, session.client.post(path, {"reason": reason})["items"])

    @command(node, "undrain")
    def node_undrain(
        session: Session,
        name: Reference,
        reason: Reason,
        slot: Annotated[int | None, typer.Option("--slot", min=0, help="Of this slot.")] = None,
    ) -> None:
        """End a drain."""
        _act(session, name, "undrain", {"reason": reason, **_slot(slot)})

    @command(node, "cut")
    def node_cut(
        session: Session,
        name: Reference,
        slot: Annotated[int, typer.Argument(metavar="SLOT", min=0)],
        cut: Annotated[str, typer.Argument(metavar="whole|mig|share")],
        reason: Reason,
    ) -> None:
        """Sell a slot whole, in MIG instances, or in shares; only while nothing is on it."""
        _act(session, name, "cut", {"reason": reason, "slot_index": slot, "cut": cut})

    @command(node, "approve")
    def node_approve(
        session: Session,
        name: Reference,
        reason: Reason,
        family: Annotated[
            str | None, typer.Option("--family", help="The node family that it belongs to.")
        ] = None,
    ) -> None:
        """Accept the node's discovered slots, so that work may be placed there."""
        body = {"reason": reason, **({"family": family} if family else {})}
        _act(session, name, "approve", body)

    @command(node, "discover")
    def node_discover(session: Session, name: Reference) -> None:
        """Let the node's agent look at its hardware again; shows the task."""
        task = session.client.post(f"{kind_path(NODE, name)}/actions/discover")
        session.out.item(TASK, task, describe.anything)

    for verb, text in _MOVES.items():
        _move(node, verb, text)

    @command(node, "create")
    def node_create(
        session: Session,
        name: Reference,
        pool: Annotated[str, typer.Option("--pool", help="Pool that it joins.")] = "",
    ) -> None:
        """Announce a host, so that it can be given a join token."""
        made = session.client.post("/nodes", {"name": name, **({"pool": pool} if pool else {})})
        session.out.item(NODE, made, describe.node)

    @command(node, "join-token")
    def node_join_token(session: Session, name: Reference) -> None:
        """Make a one-time token with which the node's agent may join. Shown once, here."""
        made = session.client.post(f"{kind_path(NODE, name)}/join-tokens")
        session.out.say(
            f"one use, until {values.clock_time(made.get('expires_at'))} UTC; not shown again"
        )
        session.out.item(JOIN_TOKEN, made, lambda item: [values.text(item.get("token"))])


def _move(node: typer.Typer, verb: str, text: str) -> None:
    def move(session: Session, name: Reference, reason: Reason) -> None:
        _act(session, name, verb, {"reason": reason})

    move.__doc__ = text
    command(node, verb)(move)


def _slot(index: int | None) -> Json:
    return {} if index is None else {"slot_index": index}


def _act(session: Session, name: str, action: str, body: Json) -> None:
    answer = session.client.post(f"{kind_path(NODE, name)}/actions/{action}", body)
    session.out.item(NODE, answer, describe.node)
