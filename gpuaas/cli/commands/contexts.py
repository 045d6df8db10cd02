"""Which control planes are saved, and which one is current?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.config import Context
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import CONTEXT
from gpuaas.cli.output import known_format
from gpuaas.cli.problems import CliError, Json
from gpuaas.cli.session import Session

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Add `context`."""
    context = group(app, "context", "Saved control planes and sign-ins.")

    @command(context, "list")
    def context_list(session: Session) -> None:
        """List the saved contexts."""
        current = session.config.current
        session.out.items(CONTEXT, [_shown(c, current) for c in session.config.contexts.values()])

    @command(context, "use")
    def context_use(session: Session, name: Name) -> None:
        """Make a context the current one."""
        _saved(session, name)
        session.config.current = name
        session.config.save()
        session.out.say(f"context {name} is current")

    @command(context, "show")
    def context_show(
        session: Session, name: Annotated[str | None, typer.Argument(metavar="NAME")] = None
    ) -> None:
        """Show a context, by default the one in use. Tokens are not shown."""
        chosen = _saved(session, name or session.settings.context_name)
        session.out.item(CONTEXT, _shown(chosen, session.config.current), describe.anything)

    @command(context, "set")
    def context_set(
        session: Session,
        default_output: Annotated[
            str | None, typer.Option("--default-output", help="Format to use from now on.")
        ] = None,
        ca_file: Annotated[
            str | None, typer.Option("--ca-file", help="Certificate authority of the server.")
        ] = None,
    ) -> None:
        """Save --project, --server, the output format or a CA file in the context in use."""
        chosen = _saved(session, session.settings.context_name)
        if default_output is not None:
            known_format(default_output)
        if session.flags.server and session.flags.server.rstrip("/") != chosen.server:
            chosen.server = session.flags.server.rstrip("/")
            # The old server's token must not be sent to the new one.
            chosen.auth = {}
        chosen.project = session.flags.project or chosen.project
        chosen.output = default_output or chosen.output
        chosen.ca_file = ca_file or chosen.ca_file
        session.config.save()
        session.out.item(CONTEXT, _shown(chosen, session.config.current), describe.anything)


def _saved(session: Session, name: str) -> Context:
    try:
        return session.config.contexts[name]
    except KeyError:
        known = ", ".join(session.config.contexts) or "none yet"
        raise CliError(
            f"no context named {name!r} (known: {known})", Exit.NOT_FOUND, hint="gpuaas login"
        ) from None


def _shown(context: Context, current: str) -> Json:
    shown: Json = {"name": context.name, "current": context.name == current}
    shown.update({k: v for k, v in context.as_mapping().items() if k not in {"name", "auth"}})
    shown["auth"] = context.auth.get("type", "") if context.auth else "signed out"
    return shown
