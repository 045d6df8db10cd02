"""What does `gpuaas` offer, and how does the process end?"""

import os
import sys
from typing import Annotated, Any

import typer
from typer.completion import get_completion_inspect_parameters

from gpuaas.cli.commands import (
    allocations,
    auth,
    authority,
    catalogue,
    cleanup,
    contexts,
    control_keys,
    defrag,
    drift,
    events,
    identity,
    levels,
    maintenance,
    nodes,
    placement_terms,
    placing,
    readiness,
    separations,
    stock,
    team,
    tenancy,
    tools,
    work,
    workloads,
)
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import add_flags
from gpuaas.version import VERSION as RELEASE

TEXT = "Lease GPU capacity, see it, understand it, and give it back."


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"gpuaas {RELEASE}\n")
        raise typer.Exit


VERSION: Any = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]


def build() -> typer.Typer:
    """The whole command tree."""
    tree = typer.Typer(
        name="gpuaas",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # Registers the shells' completion classes, which typer does only beside its own
    # --install-completion option; that one would edit the user's shell files.
    get_completion_inspect_parameters()
    add_flags(tree, TEXT, version=VERSION)
    nouns = (
        auth,
        contexts,
        catalogue,
        stock,
        allocations,
        work,
        tenancy,
        team,
        identity,
        workloads,
        authority,
        levels,
        nodes,
        drift,
        maintenance,
        placing,
        defrag,
        placement_terms,
        separations,
        readiness,
        control_keys,
        cleanup,
        events,
        tools,
    )
    for noun in nouns:
        noun.register(tree)
    return tree


app = build()


def main() -> None:
    """Run the command line; the process ends with one of the codes in gpuaas.cli.exits."""
    try:
        try:
            app()
        finally:
            # What is held back is written now, while it can be said that it could not be.
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        _let_go()
        sys.exit(Exit.FAILURE)
    except OSError as error:
        sys.stderr.write(f"error: cannot write the answer: {error.strerror or error}\n")
        _let_go()
        sys.exit(Exit.FAILURE)


def _let_go() -> None:
    """Let the interpreter end without another try to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
