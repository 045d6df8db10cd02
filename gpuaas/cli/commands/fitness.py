"""What is a node fit for, what does it measure, and who decides what it is sold as?"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from gpuaas.cli import values
from gpuaas.cli.describe import anything, lines, stamp
from gpuaas.cli.flags import command
from gpuaas.cli.kinds import NODE, TASK, XID
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.output import bold, paint
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session, kind_path

Reference = Annotated[str, typer.Argument(metavar="NODE")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]
Shape = Annotated[
    str, typer.Option("--capability", help="What it is sold as: slices or baremetal.")
]
Metric = Annotated[
    str | None, typer.Option("--metric", help="Also the last hour of this one, e.g. power.")
]


def register(node: typer.Typer) -> None:
    """Add what is about a node's fitness to `node`."""
    _reading(node)
    _deciding(node)


def _reading(node: typer.Typer) -> None:
    @command(node, "evidence")
    def node_evidence(session: Session, name: Reference) -> None:
        """Show what a node is fit for, check by check, and how its GPUs are judged."""
        session.out.item(NODE, session.client.get(f"{kind_path(NODE, name)}/evidence"), fitness)

    @command(node, "xids")
    def node_xids(
        session: Session, name: Reference, limit: Limit = None, everything: All = False
    ) -> None:
        """List the errors that the node's GPUs have shown, and what follows from each."""
        path = f"{kind_path(NODE, name)}/xids"
        show_list(session, XID, limit=limit, everything=everything, path=path)

    @command(node, "telemetry")
    def node_telemetry(session: Session, name: Reference, metric: Metric = None) -> None:
        """Show what a node measured last, with its age; stale numbers say nothing about now."""
        query = {"metric": metric} if metric else {}
        found = session.client.get(f"{kind_path(NODE, name)}/telemetry", **query)
        session.out.item(NODE, found, telemetry)

    @command(node, "identity")
    def node_identity(session: Session, name: Reference) -> None:
        """Show who a node says it is, and everything that is otherwise than approved."""
        session.out.item(NODE, session.client.get(f"{kind_path(NODE, name)}/identity"), identity)


def _deciding(node: typer.Typer) -> None:
    @command(node, "promote")
    def node_promote(session: Session, name: Reference, capability: Shape, reason: Reason) -> None:
        """Decide that a node is sold in a shape, on evidence that holds."""
        _act(session, name, "promote", {"capability": capability, "reason": reason})

    @command(node, "demote")
    def node_demote(session: Session, name: Reference, capability: Shape, reason: Reason) -> None:
        """Place nothing new of a shape on a node; what runs there goes on."""
        _act(session, name, "demote", {"capability": capability, "reason": reason})

    @command(node, "lift-health")
    def node_lift_health(
        session: Session,
        name: Reference,
        gpu: Annotated[str, typer.Option("--gpu", help="The GPU's UUID.")],
        reason: Reason,
    ) -> None:
        """Set aside what is known against a GPU: somebody has looked at it."""
        _act(session, name, "lift-health", {"gpu_uuid": gpu, "reason": reason})

    @command(node, "burn-in")
    def node_burn_in(
        session: Session,
        name: Reference,
        duration_s: Annotated[
            int, typer.Option("--duration", min=60, help="Seconds under load, up to two days.")
        ],
        reason: Reason,
    ) -> None:
        """Have a free node put its GPUs under load; the result is evidence. Shows the task."""
        body: Json = {"duration_s": duration_s, "reason": reason}
        task = session.client.post(f"{kind_path(NODE, name)}/actions/burn-in", body)
        session.out.item(TASK, task, anything)

    @command(node, "burn-in-stop")
    def node_burn_in_stop(session: Session, name: Reference, reason: Reason) -> None:
        """Stop a burn-in; its node stays closed until the load is over. Shows the task."""
        path = f"{kind_path(NODE, name)}/actions/stop-burn-in"
        session.out.item(TASK, session.client.post(path, {"reason": reason}), anything)

    @command(node, "evidence-give")
    def node_evidence_give(
        session: Session,
        name: Reference,
        check: Annotated[str, typer.Option("--check", help="burn_in, firmware or fabric.")],
        verdict: Annotated[str, typer.Option("--verdict", help="pass or fail.")],
        reason: Reason,
        valid_s: Annotated[
            int | None, typer.Option("--valid", min=60, help="Seconds for which it is good.")
        ] = None,
        version: Annotated[str | None, typer.Option("--version", help="Of a firmware.")] = None,
    ) -> None:
        """Hand in a burn-in, a firmware check or what is known of the fabric."""
        body: Json = {"check": check, "verdict": verdict, "reason": reason}
        body |= {} if valid_s is None else {"valid_s": valid_s}
        body |= {} if version is None else {"version": version}
        answer = session.client.post(f"{kind_path(NODE, name)}/evidence", body)
        session.out.item(NODE, answer, fitness)


def _act(session: Session, name: str, action: str, body: Json) -> None:
    answer = session.client.post(f"{kind_path(NODE, name)}/actions/{action}", body)
    session.out.item(NODE, answer, fitness)


def fitness(item: Json) -> Iterator[str]:
    """What a node is fit for, each check with its standing, and GPUs that are not well."""
    node = item.get("node") or {}
    yield from lines([("Node", values.text(node.get("name"))), ("Takes", _text(item, "takes"))])
    yield bold("Capabilities")
    for one in item.get("capabilities") or ():
        until = one.get("holds_until")
        end = f", until {values.clock_time(until)} UTC" if until else ""
        yield f"  {_text(one, 'capability')}: {paint(str(one.get('state')))}{end}"
        for miss in one.get("misses") or ():
            yield f"    {_text(miss, 'check')} {_text(miss, 'standing')}: {_text(miss, 'reason')}"
            yield f"      {_text(miss, 'code')}"
    yield bold("Evidence")
    for one in item.get("evidence") or ():
        where = f" of {_text(one, 'device')}" if one.get("device") else ""
        yield f"  {_text(one, 'check')}{where}: {paint(str(one.get('standing')))}"
        said = [_text(one, "reason"), one.get("since") and f"seen {stamp(one.get('since'))}"]
        said += [one.get("unblock") and f"to mend it: {_text(one, 'unblock')}"]
        yield from (f"    {words}" for words in said if words)
    devices = item.get("devices") or ()
    if devices:
        yield bold("GPUs")
    for one in devices:
        yield f"  {_text(one, 'gpu_uuid')}: {paint(str(one.get('classification')))}"
        for finding in one.get("findings") or ():
            yield f"    {_text(finding, 'detail')} ({_text(finding, 'code')})"
            if finding.get("unblock"):
                yield f"      {_text(finding, 'unblock')}"


def telemetry(item: Json) -> Iterator[str]:
    """The last window: each device with its metrics, and what was wrong."""
    stale = " (old: this says nothing about now)" if item.get("stale") else ""
    as_of = stamp(item.get("as_of")) if item.get("as_of") else "never"
    yield from lines(
        [
            ("Measured", f"{as_of}{stale}"),
            ("By", _text(item, "measured_by")),
            ("Driver", _text(item, "driver")),
            ("CUDA", _text(item, "cuda")),
            ("Windows lost", _text(item, "lost")),
        ]
    )
    for device in item.get("devices") or ():
        slot = device.get("slot_index")
        where = "" if slot is None else f" (slot {slot})"
        yield bold(f"{device.get('device') or 'the host'}{where}")
        yield from lines(((s["metric"], _series(s)) for s in device.get("series") or ()), indent=2)
    for xid in item.get("xids") or ():
        yield f"XID {_text(xid, 'xid')}, {_text(xid, 'count')} times, on {_text(xid, 'device')}"
    for process in item.get("processes") or ():
        if process.get("beyond_claim"):
            yield f"Process {_text(process, 'pid')} uses a GPU that nobody holds"
    for point in item.get("history") or ():
        yield f"{stamp(point.get('at'))}  {_text(point, 'device')}  {_series(point)}"


def _series(series: dict[str, Any]) -> str:
    if series.get("last") is None:
        return f"unknown: {values.text(series.get('reason'))}"
    return f"{series['last']} {values.text(series.get('unit'))}"


def identity(item: Json) -> Iterator[str]:
    """Who a node says it is, and each difference with what follows."""
    yield from lines(
        [
            ("Hostname", _text(item, "hostname")),
            ("Boot", _text(item, "boot_id")),
            ("As of", stamp(item.get("as_of")) if item.get("as_of") else "never discovered"),
        ]
    )
    differing: Iterable[Json] = item.get("differences") or ()
    yield bold("Otherwise than approved") if differing else "Nothing is otherwise than approved."
    for one in differing:
        slot = one.get("slot_index")
        where = "the host" if slot is None else f"slot {slot}"
        follows = "to be decided" if one.get("to_accept") else _text(one, "outcome")
        yield f"  {where}: {_text(one, 'code')} ({follows}): {_text(one, 'detail')}"


def _text(item: Json, name: str) -> str:
    return values.text(item.get(name))
