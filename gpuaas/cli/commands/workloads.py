"""What a tenant wants to run: jobs, services and models, with all their replicas or none."""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.commands.allocations import (
    PLAN,
    Image,
    Keys,
    Own,
    Queue,
    Sku,
    Slots,
    explain,
    is_uuid,
    key_ids,
)
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import WORKLOAD
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path, strip_kind
from gpuaas.cli.values import json_object_in

Reference = Annotated[str, typer.Argument(metavar="NAME|ID")]
WorkloadKind = Annotated[str, typer.Option("--kind", help="job, service or model.")]
Zones = Annotated[list[str] | None, typer.Option("--zone", help="Only there; repeat for more.")]
DataSets = Annotated[
    list[str] | None, typer.Option("--dataset", help="Near this data; repeat for more.")
]
Band = Annotated[int | None, typer.Option("--band", min=0, help="Priority; 0 goes first.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", min=1, help="Of a model.")]
Spec = Annotated[
    str, typer.Option("--spec", help="JSON file; a model's figures under 'model'.", metavar="FILE")
]
LEVELS = "fabric, rack, block or zone"
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show what would be decided, taken, released and paid."),
]
CHANGE_PLAN = Kind("plan", (), key="workload")
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="How many of it.")]


def register(app: typer.Typer) -> None:
    """Add `workload`."""
    workload = group(app, "workload", "Jobs, services and models.")
    _reading(workload)
    _submitting(workload)
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
        explain(session, WORKLOAD, workload_id(session, name))


def _submitting(workload: typer.Typer) -> None:
    @command(workload, "submit")
    def workload_submit(
        session: Session,
        name: Annotated[str, typer.Argument(metavar="NAME")],
        kind: WorkloadKind,
        sku: Sku,
        slots: Slots = None,
        replicas: Replicas = 1,
        image: Image = "",
        ssh_key: Keys = None,
        queue: Queue = False,
        zone: Zones = None,
        dataset: DataSets = None,
        storage: Annotated[
            list[str] | None, typer.Option("--storage", help="A kind it needs; repeat for more.")
        ] = None,
        together: Annotated[
            str, typer.Option("--together", help=f"All within one {LEVELS}, or none.")
        ] = "",
        close: Annotated[
            str, typer.Option("--close", help=f"Within one {LEVELS}, if that is possible.")
        ] = "",
        apart: Annotated[bool, typer.Option("--apart", help="No two on one node.")] = False,
        own: Own = "",
        movable: Annotated[
            bool, typer.Option("--movable", help="The platform may move it to make room.")
        ] = False,
        band: Band = None,
        batch_size: BatchSize = None,
        spec: Spec = "",
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show what would be decided, and its price.")
        ] = False,
        idempotency_key: Annotated[
            str, typer.Option("--idempotency-key", help="Your own, so that it runs once.")
        ] = "",
    ) -> None:
        """Submit a workload in --project: all of its replicas are placed, or none."""
        body: Json = {
            "name": name,
            "kind": kind,
            "sku": sku,
            "replicas": replicas,
            "wait": queue,
            "image": image,
            "ssh_keys": key_ids(session, ssh_key or []),
            "zones": zone or [],
            "datasets": dataset or [],
            "storage": storage or [],
            "spec": _spec(spec),
            "apart": apart,
            "movable": movable,
        }
        body |= {
            member: value
            for member, value in (
                ("slots", slots),
                ("band", band),
                ("batch_size", batch_size),
                ("together", together or None),
                ("close", close or None),
                ("own", own or None),
            )
            if value is not None
        }
        path = f"/projects/{segment(session.project())}/workloads"
        if dry_run:
            plan = session.client.post(f"{path}/plan", body)
            session.out.item(PLAN, {"sku": sku, **plan}, describe.plan)
            return
        ticket = session.client.post(path, body, idempotency_key=idempotency_key)
        session.out.item(WORKLOAD, ticket["workload"], describe.anything)


def _acting(workload: typer.Typer) -> None:
    def act(session: Session, name: str, verb: str, body: Json, *, dry_run: bool) -> None:
        path = f"{_path(session, name)}/actions/{verb}"
        if dry_run:
            plan = session.client.post(f"{path}/plan", body)
            session.out.item(CHANGE_PLAN, {"workload": name, **plan}, describe.change_plan)
            return
        ticket = session.client.post(path, body)
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
        dry_run: DryRun = False,
    ) -> None:
        """Run more or fewer replicas."""
        act(
            session,
            name,
            "scale",
            {"replicas": replicas, "partial": partial, "wait": queue},
            dry_run=dry_run,
        )

    @command(workload, "batch-size")
    def workload_batch_size(
        session: Session,
        name: Reference,
        size: Annotated[int, typer.Argument(metavar="SIZE", min=1)],
        dry_run: DryRun = False,
    ) -> None:
        """Change the batch size; a model's memory is checked first."""
        act(session, name, "batch-size", {"batch_size": size}, dry_run=dry_run)

    @command(workload, "sharing")
    def workload_sharing(
        session: Session,
        name: Reference,
        mode: Annotated[str, typer.Argument(metavar="none|shared|mig|node")],
        dry_run: DryRun = False,
    ) -> None:
        """Say how its GPUs may be shared, as far as its tier and SKU allow it."""
        act(session, name, "sharing", {"mode": mode}, dry_run=dry_run)

    @command(workload, "move")
    def workload_move(
        session: Session,
        name: Reference,
        zone: Zones = None,
        dataset: DataSets = None,
        queue: Queue = False,
        dry_run: DryRun = False,
    ) -> None:
        """Move it: all new places are claimed before the old ones are released."""
        body = {"zones": zone or [], "datasets": dataset or [], "wait": queue}
        act(session, name, "placement", body, dry_run=dry_run)

    @command(workload, "priority")
    def workload_priority(
        session: Session,
        name: Reference,
        band: Annotated[int, typer.Argument(metavar="BAND", min=0, help="0 goes first.")],
        dry_run: DryRun = False,
    ) -> None:
        """Change its priority within the tier's band; what waits is re-ordered."""
        act(session, name, "priority", {"band": band}, dry_run=dry_run)

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


def _spec(file: str) -> Json:
    """The specification in a JSON file, or an empty one."""
    return json_object_in(file) if file else {}


def _path(session: Session, reference: str) -> str:
    """The address of a workload given by id or by name."""
    return kind_path(WORKLOAD, workload_id(session, reference))


def workload_id(session: Session, reference: str) -> str:
    """The id of a workload given by id, name or `workload/NAME`; one that has not ended wins."""
    wanted = strip_kind(WORKLOAD, reference)
    if is_uuid(wanted):
        return wanted
    found = session.find(WORKLOAD, wanted, accept=lambda item: item.get("state") != "ended")
    return str(found["id"])
