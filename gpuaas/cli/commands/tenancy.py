"""What belongs to a tenant: projects, SSH keys, tokens; and the tenants themselves."""

from pathlib import Path
from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.client import segment
from gpuaas.cli.config import read_secret
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import PROJECT, SSH_KEY, TENANT, TOKEN
from gpuaas.cli.listing import All, Limit, State, show_list
from gpuaas.cli.output import Kind
from gpuaas.cli.problems import Json, UsageError
from gpuaas.cli.session import Session, kind_path

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Slug = Annotated[str, typer.Argument(metavar="SLUG|ID")]
Reference = Annotated[str, typer.Argument(metavar="NAME|ID")]


def register(app: typer.Typer) -> None:
    """Add `project`, `ssh-key`, `token` and `tenant`."""
    _projects(app)
    _ssh_keys(app)
    _tokens(app)
    _tenants(app)


def _projects(app: typer.Typer) -> None:
    project = group(app, "project", "Projects of your tenant.")

    @command(project, "list")
    def project_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the projects."""
        show_list(session, PROJECT, limit=limit, everything=everything)

    @command(project, "create")
    def project_create(session: Session, name: Name) -> None:
        """Create a project."""
        session.out.item(
            PROJECT, session.client.post("/projects", {"name": name}), describe.anything
        )

    @command(project, "describe")
    def project_describe(session: Session, name: Slug) -> None:
        """Show one project."""
        session.out.item(PROJECT, session.client.get(kind_path(PROJECT, name)), describe.anything)

    @command(project, "delete")
    def project_delete(session: Session, name: Slug, yes: Yes = False) -> None:
        """Close a project in which nothing is held; else what it holds is named."""
        session.confirm(f"Delete project {name}?", yes=yes)
        session.client.delete(kind_path(PROJECT, name))
        session.out.say(f"project {name} is gone")


def _ssh_keys(app: typer.Typer) -> None:
    ssh_key = group(app, "ssh-key", "Public keys that are put on what you lease.")

    @command(ssh_key, "list")
    def ssh_key_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List your public keys."""
        show_list(session, SSH_KEY, limit=limit, everything=everything)

    @command(ssh_key, "add")
    def ssh_key_add(
        session: Session,
        name: Name,
        file: Annotated[str, typer.Argument(metavar="FILE", help="Public key; - for stdin.")],
    ) -> None:
        """Add a public key."""
        public_key = read_secret(file)
        if "PRIVATE KEY" in public_key:
            raise UsageError("that is a private key; give the .pub file")
        made = session.client.post("/ssh-keys", {"name": name, "public_key": public_key})
        session.out.item(SSH_KEY, made, describe.anything)

    @command(ssh_key, "delete")
    def ssh_key_delete(session: Session, key: Reference, yes: Yes = False) -> None:
        """Delete a public key. What already runs keeps it."""
        _delete(session, SSH_KEY, key, yes=yes)


def _tokens(app: typer.Typer) -> None:
    token = group(app, "token", "API tokens.")

    @command(token, "list")
    def token_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List your tokens; the secrets are not among it."""
        show_list(session, TOKEN, limit=limit, everything=everything)

    @command(token, "create")
    def token_create(
        session: Session,
        name: Name,
        scope: Annotated[
            list[str] | None, typer.Option("--scope", help="Permission; repeat for more.")
        ] = None,
        expires_in_days: Annotated[
            int | None, typer.Option("--expires-in-days", min=1, help="Lifetime.")
        ] = None,
        out_file: Annotated[
            str | None,
            typer.Option("--out-file", help="Write the token there, readable by you only."),
        ] = None,
    ) -> None:
        """Create a token. Its secret is shown once, here."""
        body: Json = {"name": name}
        if scope:
            body["scopes"] = scope
        if expires_in_days:
            body["expires_in_days"] = expires_in_days
        target = Path(out_file).expanduser() if out_file else None
        if target is not None and target.exists():
            raise UsageError(f"{target} exists already")
        made = session.client.post("/tokens", body)
        secret = str(made.get("token") or "")
        if target is not None:
            target.touch(mode=0o600, exist_ok=False)
            target.write_text(secret + "\n", encoding="utf-8")
            made = {key: value for key, value in made.items() if key != "token"}
            session.out.say(f"the token is in {target}")
        else:
            session.out.say("keep the token now; it is not shown again")
        session.out.item(TOKEN, made, describe.anything)

    @command(token, "revoke")
    def token_revoke(session: Session, token: Reference, yes: Yes = False) -> None:
        """Revoke a token at once."""
        _delete(session, TOKEN, token, yes=yes)


def _tenants(app: typer.Typer) -> None:
    tenant = group(app, "tenant", "Tenants (operators).")

    @command(tenant, "list")
    def tenant_list(
        session: Session,
        state: State = None,
        limit: Limit = None,
        everything: All = False,
    ) -> None:
        """List the tenants."""
        show_list(
            session,
            TENANT,
            limit=limit,
            everything=everything,
            keep=None if state is None else (lambda item: item.get("state") == state),
        )

    @command(tenant, "describe")
    def tenant_describe(session: Session, name: Slug) -> None:
        """Show one tenant."""
        session.out.item(TENANT, session.client.get(kind_path(TENANT, name)), describe.anything)

    @command(tenant, "show")
    def tenant_show(session: Session) -> None:
        """Show your own tenant: its state and its tier."""
        session.out.item(TENANT, session.client.get("/tenant"), describe.anything)

    def act(session: Session, name: str, action: str, reason: str) -> None:
        path = f"{kind_path(TENANT, name)}/actions/{action}"
        answer = session.client.post(path, {"reason": reason})
        session.out.item(TENANT, answer, describe.anything)

    @command(tenant, "approve")
    def tenant_approve(session: Session, name: Slug, reason: Reason) -> None:
        """Let a pending tenant in."""
        act(session, name, "approve", reason)

    @command(tenant, "reject")
    def tenant_reject(session: Session, name: Slug, reason: Reason) -> None:
        """Refuse a pending tenant."""
        act(session, name, "reject", reason)

    @command(tenant, "suspend")
    def tenant_suspend(session: Session, name: Slug, reason: Reason, yes: Yes = False) -> None:
        """Suspend a tenant: nothing new is admitted for it."""
        session.confirm(f"Suspend tenant {name}?", yes=yes)
        act(session, name, "suspend", reason)

    @command(tenant, "resume")
    def tenant_resume(session: Session, name: Slug, reason: Reason) -> None:
        """End a tenant's suspension."""
        act(session, name, "resume", reason)

    @command(tenant, "delete")
    def tenant_delete(session: Session, name: Slug, reason: Reason, yes: Yes = False) -> None:
        """Begin a tenant's deletion; it ends with the proof of all that it held."""
        session.confirm(f"Delete tenant {name}? Nothing brings it back.", yes=yes)
        act(session, name, "delete", reason)


def _delete(session: Session, kind: Kind, reference: str, *, yes: bool) -> None:
    found = session.find(kind, reference)
    label = found.get("name") or found["id"]
    session.confirm(f"Delete {kind.name} {label}?", yes=yes)
    session.client.delete(f"{kind.path}/{segment(str(found['id']))}")
    session.out.say(f"{kind.name} {label} is gone")
