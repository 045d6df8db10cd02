"""How does every command get the global flags, the session and one way to fail?

The flags work before and after the subcommand: the innermost one given wins.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from gpuaas.cli import values
from gpuaas.cli.exits import Exit
from gpuaas.cli.output import Output
from gpuaas.cli.problems import (
    CliError,
    Json,
    OperationFailed,
    ProblemError,
    UsageError,
    WaitTimeout,
)
from gpuaas.cli.session import Flags, Session

PANEL = "Global options"


def _option(*names: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=PANEL)


GLOBAL_ANNOTATIONS: dict[str, Any] = {
    "output": Annotated[
        str | None,
        _option(
            "-o",
            "--output",
            text="table, wide, json, yaml, name, csv or jsonpath=TEMPLATE.",
            metavar="FORMAT",
        ),
    ],
    "json": Annotated[bool | None, _option("--json", text="The same as -o json.")],
    "columns": Annotated[
        str | None,
        _option("--columns", text="Columns to show; dotted members work too.", metavar="A,B"),
    ],
    "no_headers": Annotated[
        bool | None, _option("--no-headers", text="Tables without their heading.")
    ],
    "wait": Annotated[bool | None, _option("--wait", text="Wait for the outcome.")],
    "timeout": Annotated[
        str | None,
        _option("--timeout", text="How long to wait (default 10m).", metavar="DURATION"),
    ],
    "project": Annotated[
        str | None, _option("-p", "--project", text="Project to act in.", metavar="PROJECT")
    ],
    "context": Annotated[
        str | None, _option("--context", text="Saved context to use.", metavar="NAME")
    ],
    "server": Annotated[
        str | None, _option("--server", text="Address of the control plane.", metavar="URL")
    ],
    "token_file": Annotated[
        str | None,
        _option("--token-file", text="File with the API token; - for stdin.", metavar="FILE"),
    ],
    "request_id": Annotated[
        str | None,
        _option("--request-id", text="Id under which the server logs it.", metavar="ID"),
    ],
    "quiet": Annotated[bool | None, _option("-q", "--quiet", text="No messages, only data.")],
    "verbose": Annotated[
        bool | None, _option("-v", "--verbose", text="One line a request on standard error.")
    ],
    "debug": Annotated[
        bool | None, _option("--debug", text="Requests and answers, secrets redacted.")
    ],
    "no_input": Annotated[bool | None, _option("--no-input", text="Never ask a question.")],
}


def command(
    app: typer.Typer, name: str, *, hidden: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function whose first parameter is the Session as command `name`."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, help=inspect.getdoc(function), hidden=hidden)(_with_session(function))
        return function

    return register


def group(app: typer.Typer, name: str, text: str) -> typer.Typer:
    """A noun: a group of commands that takes the global flags too."""
    inner = typer.Typer(no_args_is_help=True, help=text)
    add_flags(inner, text)
    app.add_typer(inner, name=name, help=text)
    return inner


def add_flags(app: typer.Typer, text: str, **extra: Any) -> None:
    """Let the group itself take the global flags, ahead of its subcommand.

    `extra` maps further parameter names to their annotations; their callbacks act alone.
    """

    def remember(ctx: typer.Context, **given: Any) -> None:
        flags = Flags(**{k: v for k, v in given.items() if k in GLOBAL_ANNOTATIONS})
        ctx.obj = flags.over(ctx.obj) if isinstance(ctx.obj, Flags) else flags

    _declare(remember, [_context_parameter()], {**GLOBAL_ANNOTATIONS, **extra})
    app.callback(help=text)(remember)


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:
        flags = Flags(**{name: given.pop(name) for name in GLOBAL_ANNOTATIONS})
        outer = ctx.obj if isinstance(ctx.obj, Flags) else Flags()
        session = Session(flags.over(outer))
        try:
            function(session, **given)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except CliError as error:
            report(error, _error_output(session))
            raise typer.Exit(error.exit_code) from None
        finally:
            session.close()

    own = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    parameters = [_context_parameter(), *(p.replace(annotation=hints[p.name]) for p in own)]
    clash = {p.name for p in own} & set(GLOBAL_ANNOTATIONS)
    if clash:
        raise TypeError(f"{function.__name__} redefines the global flags {sorted(clash)}")
    _declare(run, parameters, GLOBAL_ANNOTATIONS)
    return run


def _context_parameter() -> inspect.Parameter:
    return inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )


def _declare(
    function: Callable[..., None], parameters: list[inspect.Parameter], flags: dict[str, Any]
) -> None:
    """Give the function the signature that typer shall see."""
    shown = [
        *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters),
        *(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for name, annotation in flags.items()
        ),
    ]
    # functools.wraps left the inner function's own annotations and link behind.
    function.__dict__.pop("__wrapped__", None)
    function.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined] # typer reads it
    function.__annotations__ = {p.name: p.annotation for p in shown}


def _error_output(session: Session) -> Output:
    try:
        return session.out
    except UsageError:
        # The output format itself was the mistake.
        return Output(quiet=bool(session.flags.quiet))


def report(error: CliError, out: Output) -> None:
    """Say what went wrong: code, detail, numbers, and what would unblock it."""
    if isinstance(error, ProblemError):
        _report_problem(error, out)
    elif isinstance(error, OperationFailed):
        _report_operation(error.operation, out)
        if error.problem:
            _report_problem(error.problem, out)
        else:
            out.error(f"error: {values.clean(error.message)}")
    else:
        label = "pending" if isinstance(error, WaitTimeout) else "error"
        out.error(f"{label}: {values.clean(error.message)}")
    if error.hint:
        out.error(f"try: {error.hint}")


def _report_problem(problem: ProblemError, out: Output) -> None:
    out.error(f"error: {values.clean(problem.code)}: {values.clean(problem.message)}")
    for entry in problem.errors:
        where = values.text(entry.get("pointer"))
        out.error(f"  {where}: {values.text(entry.get('detail') or entry.get('code'))}")
    facts = dict(problem.facts)
    request = facts.pop("request", None)
    facts.pop("decision", None)
    numbers = values.facts(facts)
    if numbers:
        out.error(f"  numbers: {numbers}")
    if problem.unblock:
        out.error(f"  what would help: {values.clean(problem.unblock)}")
    if request:
        out.error(f"  in full: gpuaas explain request/{values.text(request)}")
    if problem.docs:
        out.error(f"  more: {values.clean(problem.docs)}")
    if problem.request_id:
        out.error(f"  request id: {values.clean(problem.request_id)}")
    if problem.status == 401:
        out.error("try: gpuaas login")


def _report_operation(operation: Json, out: Output) -> None:
    progress = operation.get("progress")
    step = progress.get("step") if isinstance(progress, dict) else None
    out.error(
        f"operation {values.text(operation.get('id'))} {values.text(operation.get('state'))}"
        + (f" at step {values.text(step)}" if step else "")
    )
