"""What a tenant wants to run: jobs, services and models, with all their replicas or none."""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.commands.allocations import explain, is_uuid
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import WORKLOAD
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path

Reference = Annotated[str, typer.Argument(metavar="NAME|ID")]
Queue = Annotated[bool, typer.Option("--queue", help="Wait in the queue if it must.")]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="How many of it.")]


def register(app: typer.Typer) -> None:
    """Add `workload`."""
    workload = group(app, "workload", "Jobs, services and models.")
    _reading(workload)
    _acting(workload)


def _reading(workload: typer.Typer) -> None:
    @command(workload, "list")
    def workload_list(
        session: Session,
        state: State = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List workloads: of --project, or of the whole tenant without it."""
        show_list(
            session,
            WORKLOAD,
            limit=limit,
            everything=everything,
            state=state,
            project=session.flags.project,
        )

    @command(workload, "describe")
    def workload_describe(session: Session, name: Reference) -> None:
        """Show one workload."""
        session.out.item(WORKLOAD, session.client.get(_path(session, name)), describe.anything)

    @command(workload, "explain")
    def workload_explain(session: Session, name: Reference) -> None:
        """Show why its last request was decided so: the gates in order, with their numbers."""
        explain(session, WORKLOAD, _key(session, name))


def _acting(workload: typer.Typer) -> None:
    @command(workload, "submit")
    def workload_submit(
        session: Session,
        name: Annotated[str, typer.Argument(metavar="NAME")],
        kind: Annotated[str, typer.Option("--kind", help="job, service or model.")],
        sku: Annotated[str, typer.Option("--sku", help="What each replica takes.")],
        slots: Annotated[int | None, typer.Option("--slots", min=1, help="Of it.")] = None,
        replicas: Replicas = 1,
        queue: Queue = False,
    ) -> None:
        """Submit a workload in --project: all of its replicas are placed, or none."""
        body: Json = {"name": name, "kind": kind, "sku": sku, "replicas": replicas, "wait": queue}
        if slots is not None:
            body["slots"] = slots
        project = session.project()
        ticket = session.client.post(f"/projects/{project}/workloads", body)
        session.out.item(WORKLOAD, ticket["workload"], describe.anything)

    @command(workload, "scale")
    def workload_scale(
        session: Session,
        name: Reference,
        replicas: Replicas,
        partial: Annotated[
            bool, typer.Option("--partial", help="As many as there is room for.")
        ] = False,
        queue: Queue = False,
    ) -> None:
        """Run more or fewer replicas."""
        body = {"replicas": replicas, "partial": partial, "wait": queue}
        ticket = session.client.post(f"{_path(session, name)}/actions/scale", body)
        session.out.item(WORKLOAD, ticket["workload"], describe.anything)

    @command(workload, "stop")
    def workload_stop(
        session: Session,
        name: Reference,
        reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    ) -> None:
        """Stop a workload: what waits is withdrawn, what it holds is released."""
        session.confirm(f"Stop workload {name}?", yes=yes)
        answer = session.client.post(f"{_path(session, name)}/actions/stop", {"reason": reason})
        session.out.item(WORKLOAD, answer, describe.anything)


def _path(session: Session, reference: str) -> str:
    """The address of a workload given by id or by name."""
    return kind_path(WORKLOAD, _key(session, reference))


def _key(session: Session, reference: str) -> str:
    """The id of a workload; of several with a name, one that has not ended wins."""
    if is_uuid(reference):
        return reference
    found = session.find(WORKLOAD, reference, accept=lambda item: item.get("state") != "ended")
    return str(found["id"])
