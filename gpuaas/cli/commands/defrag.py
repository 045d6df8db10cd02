"""Which moves would make room, and how does an operator allow and make them?"""

from collections.abc import Iterator
from typing import Annotated

import typer

from gpuaas.cli import describe, values, waiting
from gpuaas.cli.client import segment
from gpuaas.cli.commands.authority import milli
from gpuaas.cli.commands.levels import named
from gpuaas.cli.commands.tenancy import Reason
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import OPERATION, units
from gpuaas.cli.output import Kind, column
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session

POLICY = Kind(
    "defrag-policy",
    (
        column("POOL"),
        column("ENABLED"),
        column("MOVES"),
        units("GPU-HOURS", "lost_milli"),
        column("FROM", "from_hour"),
        column("UNTIL", "until_hour"),
        column("VERSION", wide=True),
    ),
    key="pool",
    path="/defrag/policies",
    paged=False,
)
PLAN = Kind("defrag-plan", (), key="digest", path="/defrag/plan")
Sku = Annotated[str, typer.Argument(metavar="SKU")]
Slots = Annotated[
    int | None, typer.Option("--slots", min=0, help="Room for so many; else the largest sold.")
]
Moves = Annotated[int | None, typer.Option("--moves", min=0, help="At most so many moves.")]
Lost = Annotated[
    str | None, typer.Option("--gpu-hours", help="At most so much lost work, in GPU-hours.")
]
Asked = Annotated[
    str | None, typer.Option("--request", help="Room for this waiting request, which gets it.")
]
Hour = Annotated[int, typer.Option(min=0, max=23, help="UTC; equal ones: the whole day.")]
MARKS = {"free": ".", "held": "#", "leaving": "<", "arriving": ">"}


def register(app: typer.Typer) -> None:
    """Add `defrag`."""
    defrag = group(app, "defrag", "Moves of work that make room (operators).")

    @command(defrag, "plan")
    def defrag_plan(
        session: Session,
        sku: Sku,
        slots: Slots = None,
        moves: Moves = None,
        lost: Lost = None,
        request: Asked = None,
    ) -> None:
        """Show the fewest moves that make room for a size of a SKU. Nothing is changed."""
        found = session.client.post(PLAN.path, _wanted(sku, slots, moves, lost, request))
        session.out.item(PLAN, found, plan)

    @command(defrag, "run")
    def defrag_run(
        session: Session,
        sku: Sku,
        seen: Annotated[str, typer.Option("--seen", help="The digest of the plan.")],
        reason: Reason,
        slots: Slots = None,
        moves: Moves = None,
        lost: Lost = None,
        request: Asked = None,
    ) -> None:
        """Make the moves of the plan that was looked at; with --wait, until they are made."""
        body = {**_wanted(sku, slots, moves, lost, request), "seen": seen, "reason": reason}
        done = waiting.outcome(session, session.client.post("/defrag/runs", body))
        if done is not None:
            session.out.item(OPERATION, done, describe.operation)

    @command(defrag, "policies")
    def defrag_policies(session: Session) -> None:
        """Show where work may be moved, and how much in one run."""
        session.out.items(POLICY, session.client.get(POLICY.path)["items"])

    @command(defrag, "allow")
    def defrag_allow(
        session: Session,
        pool: Annotated[str, typer.Argument(metavar="POOL")],
        reason: Reason,
        off: Annotated[bool, typer.Option("--off", help="Forbid it.")] = False,
        moves: Moves = None,
        lost: Lost = None,
        from_hour: Hour = 0,
        until_hour: Hour = 0,
    ) -> None:
        """Allow a pool's movable work to be moved, within a budget and hours; or forbid it."""
        body = {
            "enabled": not off,
            "reason": reason,
            "from_hour": from_hour,
            "until_hour": until_hour,
            **named(moves=moves, lost_milli=None if lost is None else milli(lost)),
        }
        answer = session.client.put(f"{POLICY.path}/{segment(pool)}", body)
        session.out.item(POLICY, answer, describe.anything)


def _wanted(
    sku: str, slots: int | None, moves: int | None, lost: str | None, request: str | None
) -> Json:
    lost_milli = None if lost is None else milli(lost)
    more = named(slots=slots, moves=moves, lost_milli=lost_milli, request=request)
    return {"sku": sku, **more}


def plan(item: Json) -> Iterator[str]:
    """A plan of moves for people: what, from where to where, and the hosts before and after."""
    yield values.text(item.get("detail"))
    for number, move in enumerate(item.get("moves") or [], 1):
        yield (
            f"  {number}. {values.text(move['workload'])} of {values.text(move['tenant'])}: "
            f"{values.text(move['source_node'])} {_slots(move['leaves'])} to "
            f"{values.text(move['target'])} {_slots(move['takes'])}, "
            f"{values.units(move['lost_milli'])} GPU-hours lost"
        )
    for host in item.get("pictures") or []:
        yield f"  {values.text(host['host'])}  {_cells(host['before'])} to {_cells(host['after'])}"
    for part in item.get("left_out") or []:
        yield f"  left out: {part['allocations']} allocations ({values.text(part['code'])})"
    if not item.get("enabled"):
        yield f"Moves are not allowed in {values.text(item.get('pool'))}: gpuaas defrag allow"
    if item.get("moves"):
        yield f"To make them: gpuaas defrag run {values.text(item['sku'])} --seen {item['digest']}"


def _slots(found: list[int]) -> str:
    return f"slots {','.join(map(str, found))}"


def _cells(states: list[str]) -> str:
    return "".join(MARKS.get(state, "?") for state in states)
