"""Programs that act in a tenant, invitations to it, and operators' recorded looks into it."""

from collections.abc import Mapping
from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.commands.tenancy import Reason, Reference, Yes
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import BREAK_GLASS, INVITATION, OPERATOR, SERVICE_ACCOUNT, TOKEN
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.problems import Json, UsageError
from gpuaas.cli.session import Session, kind_path

Role = Annotated[str, typer.Option("--role", help="admin, member, viewer or billing.")]
Code = Annotated[
    str | None,
    typer.Option("--code", help="Code of your second factor; asked for when it is needed."),
]


def register(app: typer.Typer) -> None:
    """Add `service-account`, `invitation`, `operator` and `break-glass`."""
    _service_accounts(app)
    _invitations(app)
    _operators(app)
    _break_glass(app)


def factor(code: str | None) -> Mapping[str, str]:
    """The header that carries a second factor's code."""
    return {"Gpuaas-Second-Factor": code} if code else {}


def _service_accounts(app: typer.Typer) -> None:
    program = group(app, "service-account", "Identities of programs.")

    @command(program, "list")
    def program_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the service accounts."""
        show_list(session, SERVICE_ACCOUNT, limit=limit, everything=everything)

    @command(program, "create")
    def program_create(
        session: Session, name: Annotated[str, typer.Argument(metavar="NAME")], role: Role
    ) -> None:
        """Make a service account. It can do nothing before it has a token."""
        made = session.client.post(SERVICE_ACCOUNT.path, {"name": name, "role": role})
        session.out.item(SERVICE_ACCOUNT, made, describe.anything)

    @command(program, "token")
    def program_token(
        session: Session,
        account: Reference,
        name: Annotated[str, typer.Option("--name", help="What will use the token.")],
        scope: Annotated[
            list[str] | None, typer.Option("--scope", help="Permission; repeat for more.")
        ] = None,
        expires_in_days: Annotated[
            int | None, typer.Option("--expires-in-days", min=1, help="Lifetime.")
        ] = None,
    ) -> None:
        """Make a token for a service account. Its secret is shown once, here."""
        body: Json = {"name": name}
        if scope:
            body["scopes"] = scope
        if expires_in_days:
            body["expires_in_days"] = expires_in_days
        found = session.find(SERVICE_ACCOUNT, account)
        made = session.client.post(f"{SERVICE_ACCOUNT.path}/{segment(found['id'])}/tokens", body)
        session.out.say("keep the token now; it is not shown again")
        session.out.item(TOKEN, made, describe.anything)

    @command(program, "disable")
    def program_disable(
        session: Session, account: Reference, reason: Reason, yes: Yes = False
    ) -> None:
        """End a service account for good, and all its tokens at once."""
        found = session.find(SERVICE_ACCOUNT, account)
        session.confirm(f"Disable {found.get('name')} and its tokens?", yes=yes)
        path = f"{SERVICE_ACCOUNT.path}/{segment(found['id'])}/actions/disable"
        done = session.client.post(path, {"reason": reason})
        session.out.item(SERVICE_ACCOUNT, done, describe.anything)


def _invitations(app: typer.Typer) -> None:
    invitation = group(app, "invitation", "Invitations to your tenant.")

    @command(invitation, "list")
    def invitation_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the invitations and what became of them."""
        show_list(session, INVITATION, limit=limit, everything=everything)

    @command(invitation, "send")
    def invitation_send(
        session: Session, email: Annotated[str, typer.Argument(metavar="EMAIL")], role: Role
    ) -> None:
        """Invite a person by mail. The link in it works once, for seven days."""
        made = session.client.post(INVITATION.path, {"email": email, "role": role})
        session.out.item(INVITATION, made, describe.anything)

    @command(invitation, "revoke")
    def invitation_revoke(
        session: Session, invitation_id: Annotated[str, typer.Argument(metavar="ID")]
    ) -> None:
        """Take an invitation back."""
        path = f"{kind_path(INVITATION, invitation_id)}/actions/revoke"
        session.out.item(INVITATION, session.client.post(path), describe.anything)


def _operators(app: typer.Typer) -> None:
    operator = group(app, "operator", "Who operates the platform, and as what (operators).")

    @command(operator, "list")
    def operator_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the operators with their roles."""
        show_list(session, OPERATOR, limit=limit, everything=everything)

    @command(operator, "role")
    def operator_role(
        session: Session,
        email: Annotated[str, typer.Argument(metavar="EMAIL|ID")],
        role: Annotated[
            str,
            typer.Argument(metavar="ROLE", help="viewer, operator, approver or administrator."),
        ],
        reason: Reason,
        code: Code = None,
    ) -> None:
        """Give an operator another role (administrators)."""
        people = session.client.whole(OPERATOR.path)
        found = next((one for one in people if email in (one["email"], one["id"])), None)
        if found is None:
            raise UsageError(
                f"there is no operator {email}", hint="gpuaas operator list shows them"
            )
        path = f"{OPERATOR.path}/{segment(str(found['id']))}/role"
        body = {"role": role, "reason": reason}
        shown = session.with_factor(
            lambda given: session.client.put(path, body, headers=factor(given)), code
        )
        session.out.item(OPERATOR, shown, describe.anything)


def _break_glass(app: typer.Typer) -> None:
    window = group(app, "break-glass", "Operators' recorded looks into a tenant.")

    @command(window, "list")
    def window_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the windows: your tenant's, or all for operators."""
        show_list(session, BREAK_GLASS, limit=limit, everything=everything)

    @command(window, "open")
    def window_open(
        session: Session,
        tenant: Annotated[str, typer.Argument(metavar="TENANT")],
        reason: Annotated[str, typer.Option("--reason", help="Why; the tenant reads it.")],
        minutes: Annotated[
            int, typer.Option("--minutes", min=1, max=60, help="How long it stays open.")
        ] = 30,
        code: Code = None,
    ) -> None:
        """Look into a tenant's own view: reading only, and seen by the tenant (operators)."""
        body = {"tenant": tenant, "reason": reason, "minutes": minutes}
        made = session.with_factor(
            lambda given: session.client.post(BREAK_GLASS.path, body, headers=factor(given)), code
        )
        session.out.item(BREAK_GLASS, made, describe.anything)

    @command(window, "end")
    def window_end(
        session: Session, window_id: Annotated[str, typer.Argument(metavar="ID")]
    ) -> None:
        """Close a window before its time."""
        path = f"{kind_path(BREAK_GLASS, window_id)}/actions/end"
        session.out.item(BREAK_GLASS, session.client.post(path), describe.anything)
