"""Who is signed in, where, and how does that change?"""

import getpass
from typing import Annotated

import typer

from gpuaas.cli import describe, values
from gpuaas.cli.client import Client, segment
from gpuaas.cli.config import DEFAULT_CONTEXT, Context, read_secret
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command
from gpuaas.cli.output import Kind, column
from gpuaas.cli.problems import CliError, Json, ProblemError, UsageError
from gpuaas.cli.session import Session

DEFAULT_SERVER = "http://127.0.0.1:8000"
FIRST_PROJECT = "default"
"""What the first project of a tenant is called unless somebody renames it."""
ME = Kind(
    "user",
    (column("EMAIL"), column("NAME", "full_name"), column("TENANT", "tenant.name"), column("ROLE")),
    key="email",
)


def register(app: typer.Typer) -> None:
    """Add `login`, `logout` and `whoami`."""

    @command(app, "login")
    def login(
        session: Session,
        email: Annotated[str | None, typer.Option("--email", help="Who signs in.")] = None,
        password_file: Annotated[
            str | None,
            typer.Option("--password-file", help="File with the password; - for stdin."),
        ] = None,
        tenant: Annotated[
            str | None, typer.Option("--tenant", help="Which of your tenants the token is for.")
        ] = None,
        code: Annotated[
            str | None,
            typer.Option("--code", help="Code of your second factor; asked for when it is needed."),
        ] = None,
        token_name: Annotated[
            str, typer.Option("--token-name", help="Name of the token that is made.")
        ] = "cli",
        expires_in_days: Annotated[
            int | None, typer.Option("--expires-in-days", min=1, help="Lifetime of the token.")
        ] = None,
    ) -> None:
        """Sign in and remember it in a context.

        With an email address and password a token is made on the server; with --token-file
        that token is used. Only the token is stored, in a file that you alone can read.
        """
        context = _context_to_fill(session)
        server = _server(session, context)
        if server.startswith("http://") and not _is_loopback(server):
            session.out.error(f"warning: {server} is not encrypted; the token travels in clear")
        session.out.say(f"signing in to {server}")
        if session.flags.token_file:
            context.auth = {"type": "token", "token": read_secret(session.flags.token_file)}
        else:
            wanted: Json = {"name": token_name}
            if tenant:
                wanted["tenant"] = tenant
            if expires_in_days:
                wanted["expires_in_days"] = expires_in_days
            context.auth = _made_token(session, server, email, password_file, wanted, code)
        with session.connect(server, context.auth["token"]) as client:
            me = client.get("/me")
            context.server = server
            context.tenant = _tenant(me)
            context.project = session.flags.project or _project_of(client, context.project)
        session.config.contexts[context.name] = context
        session.config.current = context.name
        session.config.save()
        session.out.say(f"signed in as {_who(me)}; context {context.name} is current")
        if context.project:
            session.out.say(f"project {context.project}; another: gpuaas context set -p PROJECT")
        elif not me.get("operator"):
            session.out.say("choose a project: gpuaas project list, then gpuaas context set")

    @command(app, "logout")
    def logout(
        session: Session,
        keep_token: Annotated[
            bool, typer.Option("--keep-token", help="Do not revoke the token on the server.")
        ] = False,
    ) -> None:
        """Forget the context's token, and revoke it if `login` had made it."""
        context = session.config.contexts.get(session.settings.context_name)
        if context is None or not context.auth:
            session.out.say("not signed in")
            return
        token, token_id = context.auth.get("token", ""), context.auth.get("token-id", "")
        context.auth = {}
        session.config.save()
        if token and token_id and not keep_token:
            try:
                with session.connect(context.server, token, attempts=2) as client:
                    client.delete(f"/tokens/{segment(token_id)}")
            except CliError as error:
                session.out.error(f"warning: the token was not revoked: {error.message}")
        session.out.say(f"signed out of {context.server}")

    @command(app, "whoami")
    def whoami(session: Session) -> None:
        """Show who this token acts as."""
        session.out.item(ME, session.client.get("/me"), describe.anything)


def _context_to_fill(session: Session) -> Context:
    # A new context's name is not known yet, so the usual look-up would refuse it.
    name = (
        session.flags.context
        or session.environ.get("GPUAAS_CONTEXT")
        or session.config.current
        or DEFAULT_CONTEXT
    )
    session.config.contexts.setdefault(name, Context(name=name))
    return session.config.contexts[name]


def _server(session: Session, context: Context) -> str:
    server = session.settings.server or context.server
    if not server and session.may_ask:
        server = session.ask(f"Server [{DEFAULT_SERVER}]: ").strip() or DEFAULT_SERVER
    if not server:
        raise UsageError("which server?", hint="gpuaas login --server URL")
    return server.rstrip("/")


def _made_token(
    session: Session,
    server: str,
    email: str | None,
    password_file: str | None,
    wanted: Json,
    code: str | None,
) -> dict[str, str]:
    if not email:
        if not session.may_ask:
            raise UsageError("who signs in?", hint="--email ADDRESS, or --token-file FILE")
        email = session.ask("Email: ").strip()
    if password_file:
        password = read_secret(password_file)
    elif session.may_ask:
        password = getpass.getpass("Password: ", stream=session.out.stderr)
    else:
        raise UsageError("no password was given", hint="--password-file FILE, - for stdin")
    with session.connect(server) as client:
        body = {"email": email, "password": password, **wanted}
        made = session.with_factor(
            lambda given: client.post("/auth/token", body | ({"code": given} if given else {})),
            code,
        )
    token = str(made.get("token") or "")
    if not token:
        raise CliError("the server answered without a token", Exit.FAILURE)
    auth = {"type": "token", "token": token}
    if made.get("id"):
        auth["token-id"] = str(made["id"])
    return auth


def _project_of(client: Client, kept: str) -> str:
    """The context's project if it is one of theirs, else the only one, else their first."""
    try:
        slugs = [str(project.get("slug") or "") for project in client.items("/projects")]
    except ProblemError:
        # An operator may belong to no tenant; a token may not be allowed to list projects.
        return kept
    if kept in slugs:
        return kept
    if len(slugs) == 1:
        return slugs[0]
    return FIRST_PROJECT if FIRST_PROJECT in slugs else ""


def _tenant(me: Json) -> str:
    tenant = me.get("tenant")
    name = describe.name_of(tenant)
    return "" if name == "-" else name


def _who(me: Json) -> str:
    return values.text(me.get("email"))


def _is_loopback(server: str) -> bool:
    host = server.removeprefix("http://").split("/", 1)[0].rsplit(":", 1)[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")
