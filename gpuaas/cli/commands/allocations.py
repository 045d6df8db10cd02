"""How does a tenant lease capacity, look at it, understand it, and give it back?"""

import uuid
from typing import Annotated, Any

import typer

from gpuaas.cli import describe, values, waiting
from gpuaas.cli.client import allocation_body, segment
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import ALLOCATION, OPERATION, REQUEST, SSH_KEY, TIMELINE, target
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import Json, UsageError
from gpuaas.cli.session import Session, kind_path, strip_kind

PLAN = Kind("plan", (), key="sku")
DECISION = Kind("decision", ())

Reference = Annotated[str, typer.Argument(metavar="NAME|ID")]
Sku = Annotated[str, typer.Option("--sku", help="What to lease; see `gpuaas offer`.")]
Slots = Annotated[int | None, typer.Option("--slots", min=1, help="How many slots, on one node.")]
Name = Annotated[str, typer.Option("--name", help="Your name for it.")]
Image = Annotated[str, typer.Option("--image", help="Operating system image.")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--ssh-key", help="Name or id of a public key; repeat for more."),
]
Tier = Annotated[str, typer.Option("--tier", help="Service tier.")]
Own = Annotated[
    str,
    typer.Option("--own", help="with or apart: only nodes where you have something, or nothing."),
]
MaxDuration = Annotated[
    str,
    typer.Option("--max-duration", help="It ends by itself after this: 90m, 12h, 36h30m."),
]
Queue = Annotated[bool, typer.Option("--queue", help="Queue when nothing fits now.")]


def register(app: typer.Typer) -> None:
    """Add `allocation`."""
    allocation = group(app, "allocation", "Leases on GPU capacity.")
    _asking(allocation)
    _reading(allocation)

    @command(allocation, "release")
    def allocation_release(
        session: Session,
        name: Reference,
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the record.")] = "",
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    ) -> None:
        """Give an allocation back, or cancel one that is not active yet. Its data is erased."""
        key = allocation_id(session, name)
        session.confirm(f"Release allocation {name}? Its data is erased.", yes=yes)
        operation = session.client.allocations.release(key, reason=reason)
        if not waiting.is_operation(operation):
            session.out.item(ALLOCATION, operation, describe.allocation)
        elif waiting.outcome(session, operation) is not None:
            _show(session, key)

    @command(allocation, "retry-cleanup")
    def allocation_retry_cleanup(
        session: Session,
        name: Reference,
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")],
    ) -> None:
        """Try a blocked cleanup again, after the host was repaired (operators)."""
        key = allocation_id(session, name)
        path = f"/allocations/{segment(key)}/actions/retry-cleanup"
        if waiting.outcome(session, session.client.post(path, {"reason": reason})) is not None:
            _show(session, key)


def seconds(written: str) -> int | None:
    """A duration as whole seconds; None where none was given."""
    return int(values.duration(written)) if written else None


def _asking(allocation: typer.Typer) -> None:
    @command(allocation, "create")
    def allocation_create(
        session: Session,
        sku: Sku,
        slots: Slots = None,
        name: Name = "",
        image: Image = "",
        ssh_key: Keys = None,
        tier: Tier = "",
        own: Own = "",
        max_duration: MaxDuration = "",
        queue: Queue = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show what would be decided, and its price.")
        ] = False,
        idempotency_key: Annotated[
            str,
            typer.Option(
                "--idempotency-key",
                help="Your own key, so that running the command again cannot lease twice.",
            ),
        ] = "",
    ) -> None:
        """Lease capacity. With --wait the connection command is printed once it is active."""
        project = session.project()
        keys = key_ids(session, ssh_key or [])
        if dry_run:
            _plan(
                session,
                project,
                sku=sku,
                slots=slots,
                image=image,
                tier=tier,
                own=own,
                max_duration_s=seconds(max_duration),
            )
            return
        body = allocation_body(
            sku=sku,
            slots=slots,
            name=name,
            image=image,
            ssh_keys=keys,
            tier=tier,
            own=own,
            max_duration_s=seconds(max_duration),
            queue=queue,
        )
        answer = session.client.post(
            f"/projects/{segment(project)}/allocations", body, idempotency_key=idempotency_key
        )
        done = waiting.outcome(session, answer)
        if done is not None:
            _show_result(session, done)

    @command(allocation, "plan")
    def allocation_plan(
        session: Session,
        sku: Sku,
        slots: Slots = None,
        image: Image = "",
        tier: Tier = "",
        own: Own = "",
        max_duration: MaxDuration = "",
    ) -> None:
        """Show what a create would decide and cost. Nothing is changed."""
        _plan(
            session,
            session.project(),
            sku=sku,
            slots=slots,
            image=image,
            tier=tier,
            own=own,
            max_duration_s=seconds(max_duration),
        )


def _reading(allocation: typer.Typer) -> None:
    @command(allocation, "list")
    def allocation_list(
        session: Session,
        state: State = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List allocations: of --project, or of the whole tenant without it."""
        show_list(
            session,
            ALLOCATION,
            limit=limit,
            everything=everything,
            state=state,
            project=session.flags.project,
        )

    @command(allocation, "describe")
    def allocation_describe(session: Session, name: Reference) -> None:
        """Show one allocation: price, connection, and its four states with their ages."""
        _show(session, allocation_id(session, name))

    @command(allocation, "explain")
    def allocation_explain(session: Session, name: Reference) -> None:
        """Show why it was decided so: the gates in order, their numbers, the node chosen."""
        explain(session, ALLOCATION, allocation_id(session, name))

    @command(allocation, "timeline")
    def allocation_timeline(
        session: Session, name: Reference, limit: Limit = None, everything: All = False
    ) -> None:
        """Show what happened to it, newest first: who did it and why."""
        path = f"/allocations/{segment(allocation_id(session, name))}/timeline"
        show_list(session, TIMELINE, limit=limit, everything=everything, path=path)


def allocation_id(session: Session, reference: str) -> str:
    """The id of an allocation given by id, name or `allocation/ID`; live ones win a name."""
    wanted = strip_kind(ALLOCATION, reference)
    if is_uuid(wanted):
        return wanted
    found = session.find(ALLOCATION, wanted, accept=lambda item: item.get("state") != "released")
    return str(found["id"])


def explain(session: Session, kind: Kind, key: str) -> None:
    """Print the decision trace of an allocation or request."""
    decision = session.client.get(f"{kind_path(kind, key)}/explain")
    session.out.item(DECISION, {"id": key, **decision}, describe.explanation)


def is_uuid(text: str) -> bool:
    """Whether the text is an id rather than a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _show(session: Session, key: str) -> None:
    session.out.item(ALLOCATION, session.client.allocations.get(key), describe.allocation)


def _show_result(session: Session, operation: Json) -> None:
    """What a finished create led to: the allocation, or the request that still queues."""
    result = operation.get("result") or {}
    head, _, about = target(operation).partition("/")
    key = str(result.get("allocation") or (about if head == ALLOCATION.name else ""))
    if key:
        _show(session, key)
    elif head == REQUEST.name:
        request = session.client.get(kind_path(REQUEST, about))
        session.out.item(REQUEST, request, describe.anything)
    else:
        session.out.item(OPERATION, operation, describe.operation)


def _plan(session: Session, project: str, **wanted: Any) -> None:
    plan = session.client.allocations.plan(project, **wanted)
    session.out.item(PLAN, {"sku": wanted["sku"], **plan}, describe.plan)


def key_ids(session: Session, names: list[str]) -> list[str]:
    """The ids of saved keys given by name or id."""
    if any(name.endswith(".pub") for name in names):
        raise UsageError("give a saved key's name", hint="gpuaas ssh-key add NAME FILE")
    return [name if is_uuid(name) else str(session.find(SSH_KEY, name)["id"]) for name in names]
