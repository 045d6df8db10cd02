"""By which keys do hosts know the control plane's tasks: listed, prepared, switched, retired?"""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.commands.tenancy import Reason, Yes
from gpuaas.cli.flags import command, group
from gpuaas.cli.output import Kind, column
from gpuaas.cli.session import Session

KEY = Kind(
    "control-key",
    (
        column("FINGERPRINT"),
        column("ROLE"),
        column("RETIRE FROM", "retire_from"),
        column("PUBLIC KEY", "public_key", wide=True),
    ),
    key="fingerprint",
    path="/control-keys",
    paged=False,
)
Named = Annotated[str, typer.Argument(metavar="FINGERPRINT")]
AtOnce = Annotated[bool, typer.Option("--at-once", help="Do not wait, as after a theft.")]


def register(app: typer.Typer) -> None:
    """Add `control-key`."""
    keys = group(app, "control-key", "Keys that sign what nodes are told to do (operators).")

    @command(keys, "list")
    def keys_list(session: Session) -> None:
        """List the key that signs, the next one, and the one of before."""
        session.out.items(KEY, session.client.get(KEY.path)["items"])

    @command(keys, "prepare")
    def keys_prepare(session: Session, reason: Reason) -> None:
        """Make the next key; then tell every node's helper of it."""
        made = session.client.post(KEY.path, {"reason": reason})
        session.out.item(KEY, made, describe.anything)

    @command(keys, "switch")
    def keys_switch(session: Session, key: Named, reason: Reason, yes: Yes = False) -> None:
        """Let the next key sign; the present one is kept for the way back."""
        _signs(session, "switch", key, reason, yes=yes)

    @command(keys, "back")
    def keys_back(session: Session, key: Named, reason: Reason, yes: Yes = False) -> None:
        """Let the key of before sign again."""
        _signs(session, "back", key, reason, yes=yes)

    @command(keys, "retire")
    def keys_retire(
        session: Session, key: Named, reason: Reason, at_once: AtOnce = False, yes: Yes = False
    ) -> None:
        """Remove a key that does not sign; there is no way back to it."""
        session.confirm(f"Remove control key {key}?", yes=yes)
        body = {"key": key, "reason": reason, "at_once": at_once}
        session.client.post(f"{KEY.path}/actions/retire", body)
        session.out.say(f"control key {key} is gone")


def _signs(session: Session, act: str, key: str, reason: str, *, yes: bool) -> None:
    session.confirm(f"Let control key {key} sign what every node is told?", yes=yes)
    answer = session.client.post(f"{KEY.path}/actions/{act}", {"key": key, "reason": reason})
    session.out.item(KEY, answer, describe.anything)
