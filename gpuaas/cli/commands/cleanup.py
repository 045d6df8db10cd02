"""What do operators do about capacity that is blocked, for want of proof that it is clean?"""

from typing import Annotated

import typer

from gpuaas.cli import describe, values
from gpuaas.cli.client import segment
from gpuaas.cli.commands.allocations import allocation_id
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import ALLOCATION, NODE
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import UsageError
from gpuaas.cli.session import Session, kind_path

OVERRIDE = Kind("override", (), key="approval")

Reference = Annotated[str, typer.Argument(metavar="NAME|ID")]
Node = Annotated[str, typer.Argument(metavar="NODE")]
Index = Annotated[int, typer.Argument(metavar="SLOT", min=0)]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]


def register(app: typer.Typer) -> None:
    """Add `override` and `slot`."""
    _of_allocations(app)
    _of_slots(app)


def _of_allocations(app: typer.Typer) -> None:
    override = group(app, "override", "Reuse without proof of all that an allocation left blocked.")

    @command(override, "ask")
    def override_ask(session: Session, name: Reference, reason: Reason) -> None:
        """Ask for an override of an allocation's blocked slots (operators)."""
        _send(session, _allocation_path(session, name), "override", reason)

    @command(override, "approve")
    def override_approve(session: Session, name: Reference, reason: Reason) -> None:
        """Approve what was asked for: all of them are used again without proof (operators)."""
        _send(session, _allocation_path(session, name), "approve-override", reason)

    @command(override, "refuse")
    def override_refuse(session: Session, name: Reference, reason: Reason) -> None:
        """Refuse what another asked for: it stays blocked (operators)."""
        _send(session, _allocation_path(session, name), "refuse-override", reason)

    @command(override, "withdraw")
    def override_withdraw(session: Session, name: Reference, reason: Reason) -> None:
        """Withdraw what you asked for yourself (operators)."""
        _send(session, _allocation_path(session, name), "withdraw-override", reason)


def _of_slots(app: typer.Typer) -> None:
    slot = group(app, "slot", "One slot of a node that is blocked (operators).")

    @command(slot, "override")
    def slot_override(session: Session, name: Node, index: Index, reason: Reason) -> None:
        """Ask to use a blocked slot again without proof; it has to be approved."""
        _send(session, _slot_path(session, name, index), "override", reason)

    @command(slot, "approve-override")
    def slot_approve_override(session: Session, name: Node, index: Index, reason: Reason) -> None:
        """Approve what was asked for: the slot is used again without proof."""
        _send(session, _slot_path(session, name, index), "approve-override", reason)

    @command(slot, "refuse-override")
    def slot_refuse_override(session: Session, name: Node, index: Index, reason: Reason) -> None:
        """Refuse what another asked for: the slot stays blocked."""
        _send(session, _slot_path(session, name, index), "refuse-override", reason)

    @command(slot, "withdraw-override")
    def slot_withdraw_override(session: Session, name: Node, index: Index, reason: Reason) -> None:
        """Withdraw what you asked for yourself."""
        _send(session, _slot_path(session, name, index), "withdraw-override", reason)


def _send(session: Session, path: str, action: str, reason: str) -> None:
    answer = session.client.post(f"{path}/actions/{action}", {"reason": reason})
    if action == "override":
        session.out.say(values.text(answer.get("approval")))
    session.out.item(OVERRIDE, answer, describe.anything)


def _allocation_path(session: Session, name: str) -> str:
    return f"{ALLOCATION.path}/{segment(allocation_id(session, name))}"


def _slot_path(session: Session, name: str, index: int) -> str:
    slots = session.client.whole(f"{kind_path(NODE, name)}/slots")
    found = next((one for one in slots if one.get("index") == index), None)
    if found is None:
        raise UsageError(
            f"{name} has no slot {index}", hint=f"gpuaas node topology {name} shows its slots"
        )
    return f"/slots/{segment(str(found['id']))}"
