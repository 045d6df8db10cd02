"""What was asked and what is being done: admission requests and operations."""

from typing import Annotated

import typer

from gpuaas.cli import describe, waiting
from gpuaas.cli.commands.allocations import allocation_id, explain
from gpuaas.cli.commands.workloads import workload_id
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import ALLOCATION, OPERATION, REQUEST, SHORTCUTS, WORKLOAD
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import CliError, UsageError
from gpuaas.cli.session import Session, kind_path

Id = Annotated[str, typer.Argument(metavar="ID")]


def register(app: typer.Typer) -> None:
    """Add `request`, `operation` and `explain`."""
    _requests(app)
    _operations(app)

    @command(app, "explain")
    def explain_anything(
        session: Session, reference: Annotated[str, typer.Argument(metavar="KIND/NAME|ID")]
    ) -> None:
        """Explain an allocation or workload, by id or name, a request or an operation, by id."""
        head, slash, _ = reference.partition("/")
        kind = SHORTCUTS.get(head) if slash else _kind_of(session, reference)
        if kind is None:
            raise UsageError(
                f"{head!r} cannot be explained",
                hint="allocation/NAME, workload/NAME, request/ID or operation/ID",
            )
        if kind is OPERATION:
            _describe_operation(session, reference)
        elif kind is REQUEST:
            explain(session, kind, reference)
        elif kind is WORKLOAD:
            explain(session, kind, workload_id(session, reference))
        else:
            explain(session, ALLOCATION, allocation_id(session, reference))


def _kind_of(session: Session, name: str) -> Kind:
    """What a bare name or id is: an allocation, or else a workload."""
    for kind in (ALLOCATION, WORKLOAD):
        try:
            session.find(kind, name)
        except UsageError:  # several share the name; who looks it up says so
            return kind
        except CliError as error:
            if error.exit_code is not Exit.NOT_FOUND:
                raise
        else:
            return kind
    raise CliError(f"no allocation or workload {name!r}", Exit.NOT_FOUND)


def _requests(app: typer.Typer) -> None:
    request = group(app, "request", "What was asked for: admission requests and their decisions.")

    @command(request, "list")
    def request_list(
        session: Session,
        state: State = None,
        outcome: Annotated[
            str | None,
            typer.Option(
                "--outcome",
                help="admitted, denied, waiting_for_authority, forbidden_by_locality_or_topology "
                "or no_capacity.",
            ),
        ] = None,
        action: Annotated[
            str | None, typer.Option("--action", help="Such as job.submit or quota.increase.")
        ] = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List requests: what is denied, waits for authority or lacks capacity, kept apart."""
        show_list(
            session,
            REQUEST,
            limit=limit,
            everything=everything,
            state=state,
            outcome=outcome,
            action=action,
        )

    @command(request, "describe")
    def request_describe(session: Session, key: Id) -> None:
        """Show one request."""
        session.out.item(REQUEST, session.client.get(kind_path(REQUEST, key)), describe.anything)

    @command(request, "explain")
    def request_explain(session: Session, key: Id) -> None:
        """Show how it was decided: the gates in order, with their numbers."""
        explain(session, REQUEST, key)

    @command(request, "withdraw")
    def request_withdraw(
        session: Session,
        key: Id,
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the record.")] = "",
    ) -> None:
        """Take a queued request back."""
        answer = session.client.post(
            f"{kind_path(REQUEST, key)}/actions/withdraw", {"reason": reason}
        )
        session.out.item(REQUEST, answer, describe.anything)


def _operations(app: typer.Typer) -> None:
    operation = group(app, "operation", "Work under way.")

    @command(operation, "list")
    def operation_list(
        session: Session, state: State = None, limit: Limit = None, everything: All = False
    ) -> None:
        """List operations."""
        show_list(session, OPERATION, limit=limit, everything=everything, state=state)

    @command(operation, "describe")
    def operation_describe(session: Session, key: Id) -> None:
        """Show one operation and its steps; with --wait, wait for its end first."""
        _describe_operation(session, key)


def _describe_operation(session: Session, reference: str) -> None:
    found = session.client.get(kind_path(OPERATION, reference))
    if session.wait:
        found = waiting.follow(session, found)
    session.out.item(OPERATION, found, describe.operation)
