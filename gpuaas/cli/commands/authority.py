"""Who may hold what: quota and wishes for more, and the rules over every request."""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.authority_kinds import PROJECT_QUOTA
from gpuaas.cli.client import segment
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import INCREASE, POLICY, QUOTA
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.problems import Json, UsageError
from gpuaas.cli.session import Session, kind_path
from gpuaas.cli.values import json_object_in

Id = Annotated[str, typer.Argument(metavar="ID")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def register(app: typer.Typer) -> None:
    """Add `quota` and `policy`."""
    _quota(app)
    _policies(app)


def milli(text: str) -> int:
    """Units as typed, in thousandths: at most three decimals, no sign, no exponent."""
    whole, _, rest = text.partition(".")
    plain = text.isascii() and whole.isdigit() and (rest.isdigit() or "." not in text)
    if not plain or len(rest) > 3 or len(whole) > 12:
        raise UsageError(f"{text!r} is no amount of units", hint="such as 16 or 0.5")
    return int(whole) * 1000 + int(rest.ljust(3, "0"))


def _quota(app: typer.Typer) -> None:
    quota = group(app, "quota", "How much of each resource class is yours, and asking for more.")

    @command(quota, "show")
    def quota_show(session: Session) -> None:
        """Show each class: nominal, used, free, borrowed and lent, in units of the class."""
        show_list(session, QUOTA, limit=None, everything=True)

    @command(quota, "list")
    def quota_list(
        session: Session, state: State = None, limit: Limit = None, everything: All = False
    ) -> None:
        """List the wishes for more: yours, or everybody's for operators."""
        show_list(session, INCREASE, limit=limit, everything=everything, state=state)

    @command(quota, "request")
    def quota_request(
        session: Session,
        resource_class: Annotated[str, typer.Option("--class", help="Resource class.")],
        units: Annotated[str, typer.Option("--units", help="Units to hold at a time.")],
        purpose: Annotated[str, typer.Option("--for", help="What for; the operators read it.")],
    ) -> None:
        """Ask the operators for a larger envelope."""
        body = {
            "resource_class": resource_class,
            "nominal_asked_milli": milli(units),
            "justification": purpose,
        }
        made = session.client.post(INCREASE.path, body)
        session.out.item(INCREASE, made, describe.anything)

    @command(quota, "describe")
    def quota_describe(session: Session, key: Id) -> None:
        """Show one wish; operators see promised beside deliverable."""
        session.out.item(INCREASE, session.client.get(kind_path(INCREASE, key)), describe.anything)

    @command(quota, "limit")
    def quota_limit(
        session: Session,
        resource_class: Annotated[str, typer.Option("--class", help="Resource class.")],
        reason: Reason,
        units: Annotated[
            str | None, typer.Option("--units", help="The most; without it, no limit of its own.")
        ] = None,
        on_excess: Annotated[
            str | None,
            typer.Option("--on-excess", help="grandfather or drain what is held beyond it."),
        ] = None,
    ) -> None:
        """Limit --project inside the tenant's envelope."""
        body: Json = {"limit_milli": None if units is None else milli(units), "reason": reason}
        if on_excess is not None:
            body["on_excess"] = on_excess
        path = f"/projects/{segment(session.project())}/quotas/{segment(resource_class)}"
        session.out.item(PROJECT_QUOTA, session.client.put(path, body), describe.anything)

    @command(quota, "withdraw")
    def quota_withdraw(session: Session, key: Id) -> None:
        """Take an open wish back."""
        answer = session.client.post(f"{kind_path(INCREASE, key)}/actions/withdraw", {})
        session.out.item(INCREASE, answer, describe.anything)

    @command(quota, "approve")
    def quota_approve(
        session: Session,
        key: Id,
        reason: Reason,
        units: Annotated[
            str | None, typer.Option("--units", help="Another amount than asked for.")
        ] = None,
    ) -> None:
        """Grant a wish (operators); the envelope is set with it."""
        granted = {} if units is None else {"nominal_granted_milli": milli(units)}
        path = f"{kind_path(INCREASE, key)}/actions/approve"
        answer = session.client.post(path, {"reason": reason, **granted})
        session.out.item(INCREASE, answer, describe.anything)

    @command(quota, "refuse")
    def quota_refuse(session: Session, key: Id, reason: Reason) -> None:
        """Refuse a wish (operators); the tenant reads the reason."""
        path = f"{kind_path(INCREASE, key)}/actions/refuse"
        session.out.item(INCREASE, session.client.post(path, {"reason": reason}), describe.anything)


def _policies(app: typer.Typer) -> None:
    policy = group(app, "policy", "Rules over every request (operators).")

    @command(policy, "list")
    def policy_list(
        session: Session, state: State = None, limit: Limit = None, everything: All = False
    ) -> None:
        """List the rules in all their versions."""
        show_list(session, POLICY, limit=limit, everything=everything, state=state)

    @command(policy, "describe")
    def policy_describe(session: Session, key: Id) -> None:
        """Show one version of a rule: its text, how its own tests go, its last dry-run."""
        answer = session.client.get(f"{POLICY.path}/{segment(key)}")
        session.out.item(POLICY, answer, describe.anything)

    @command(policy, "create")
    def policy_create(
        session: Session,
        file: Annotated[
            str,
            typer.Option(
                "--file",
                metavar="FILE",
                help="JSON: name, expression, message, tests, and perhaps actions and unblock.",
            ),
        ],
    ) -> None:
        """Keep a rule, or the next version of one, as a draft: it decides nothing yet."""
        answer = session.client.post(POLICY.path, json_object_in(file))
        session.out.item(POLICY, answer, describe.anything)

    @command(policy, "dry-run")
    def policy_dry_run(
        session: Session,
        key: Id,
        last: Annotated[int, typer.Option("--last", min=1, max=5000, help="Decisions.")] = 500,
    ) -> None:
        """Ask a rule about the last recorded decisions, and show the report."""
        path = f"{POLICY.path}/{segment(key)}/actions/dry-run"
        session.out.item(POLICY, session.client.post(path, {"last": last}), describe.anything)

    @command(policy, "activate")
    def policy_activate(session: Session, key: Id, reason: Reason, yes: Yes = False) -> None:
        """Switch a rule on that was tried out."""
        session.confirm(f"Switch rule {key} on?", yes=yes)
        _switch(session, key, "activate", reason)

    @command(policy, "retire")
    def policy_retire(session: Session, key: Id, reason: Reason, yes: Yes = False) -> None:
        """Switch a rule off for good."""
        session.confirm(f"Switch rule {key} off?", yes=yes)
        _switch(session, key, "retire", reason)


def _switch(session: Session, key: str, verb: str, reason: str) -> None:
    path = f"{POLICY.path}/{segment(key)}/actions/{verb}"
    session.out.item(POLICY, session.client.post(path, {"reason": reason}), describe.anything)
