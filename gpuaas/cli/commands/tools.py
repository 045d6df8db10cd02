"""Tools around the product: self-diagnosis, completion, raw calls, and help on exit codes."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.completion import shell_complete
from typer.main import get_command

from gpuaas.cli.client import page_of
from gpuaas.cli.config import ENVIRONMENT
from gpuaas.cli.doctor import run_checks
from gpuaas.cli.exits import MEANINGS
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import CHECK
from gpuaas.cli.output import Column, Kind, column
from gpuaas.cli.problems import CliError, UsageError
from gpuaas.cli.session import Session
from gpuaas.cli.transport import SAFE_METHODS, json_of

COMPLETE_VARIABLE = "_GPUAAS_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
EXIT_CODE = Kind("exit-code", (column("CODE"), column("MEANING")), key="code")
VARIABLE = Kind("variable", (column("NAME"), Column("MEANING", lambda i: i["meaning"])), key="name")


def register(app: typer.Typer) -> None:
    """Add `doctor`, `completion`, `api` and `help`."""
    _api(app)
    _help(app)

    @command(app, "doctor")
    def doctor(session: Session) -> None:
        """Check the context file, the connection, the clock, the token and the project."""
        checks = run_checks(session)
        session.out.items(CHECK, [check.row() for check in checks])
        failed = [check for check in checks if check.result == "fail"]
        if failed:
            raise typer.Exit(failed[0].exit_code)

    @command(app, "completion")
    def completion(
        session: Session,
        shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish")],
    ) -> None:
        """Print a completion script: `eval "$(gpuaas completion bash)"`."""
        if shell not in SHELLS:
            raise UsageError(f"no completion for {shell!r}; choose from {', '.join(SHELLS)}")
        code = shell_complete(get_command(app), {}, "gpuaas", COMPLETE_VARIABLE, f"source_{shell}")
        if code:
            raise CliError(f"no completion script for {shell}")


def _api(app: typer.Typer) -> None:
    @command(app, "api")
    def api(
        session: Session,
        method: Annotated[str, typer.Argument(metavar="METHOD")],
        path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /skus.")],
        field: Annotated[
            list[str] | None,
            typer.Option("-f", "--field", help="Body member; JSON or text.", metavar="KEY=VALUE"),
        ] = None,
        query: Annotated[
            list[str] | None, typer.Option("--query", help="In the URL.", metavar="KEY=VALUE")
        ] = None,
        header: Annotated[
            list[str] | None, typer.Option("-H", "--header", help="Header.", metavar="NAME:VALUE")
        ] = None,
        data_file: Annotated[
            str | None, typer.Option("--data-file", help="JSON body from a file; - for stdin.")
        ] = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Follow the pages of a listing.")
        ] = False,
        idempotency_key: Annotated[
            str, typer.Option("--idempotency-key", help="Instead of a fresh one.")
        ] = "",
    ) -> None:
        """Call the API as yourself and print the answer as JSON (or YAML)."""
        verb = method.upper()
        if verb not in METHODS:
            raise UsageError(f"no method {method!r}")
        params: dict[str, Any] = dict(_pair(item, "=") for item in query or [])
        if everything:
            if verb != "GET":
                raise UsageError("--all is for GET")
            session.out.data(list(session.client.items(path, **params)))
            return
        response = session.client.transport.request(
            verb,
            path,
            params=params,
            body=None if verb in SAFE_METHODS else _body(field or [], data_file),
            headers={name: value.strip() for name, value in (_pair(h, ":") for h in header or [])},
            idempotency_key=idempotency_key,
        )
        answer = json_of(response)
        if answer is not None:
            session.out.data(answer)
        if isinstance(answer, dict) and "items" in answer and page_of(answer).next:
            session.out.say("there is more: --all")


def _help(app: typer.Typer) -> None:
    topics = group(app, "help", "Topics: exit-codes, environment.")

    @command(topics, "exit-codes")
    def exit_codes(session: Session) -> None:
        """List the exit codes. They never change."""
        rows = [{"code": int(code), "meaning": text} for code, text in MEANINGS.items()]
        session.out.items(EXIT_CODE, rows)

    @command(topics, "environment")
    def environment(session: Session) -> None:
        """List the environment variables."""
        rows = [{"name": name, "meaning": text} for name, text in ENVIRONMENT.items()]
        session.out.items(VARIABLE, rows)


def _body(fields: list[str], data_file: str | None) -> Any:
    if data_file is None:
        return {name: _value(text) for name, text in (_pair(item, "=") for item in fields)}
    if fields:
        raise UsageError("give --field or --data-file, not both")
    try:
        raw = sys.stdin.read() if data_file == "-" else Path(data_file).read_text("utf-8")
        return json.loads(raw)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read JSON from {data_file}: {error}") from error


def _pair(text: str, separator: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name:
        raise UsageError(f"{text!r} is not KEY{separator}VALUE")
    return name, value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
