"""Does the printed reference say what the commands are?"""

from pathlib import Path

from typer.main import get_command

from gpuaas.cli.main import app
from gpuaas.cli.reference import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_committed_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "print it again: python -m gpuaas.cli.reference > docs/cli.md"
    )


def test_every_command_has_a_sentence_and_the_global_options() -> None:
    pending = [("gpuaas", get_command(app))]
    seen = 0
    while pending:
        path, node = pending.pop()
        assert node.help, path
        names = {option for parameter in node.params for option in parameter.opts}
        assert {"--output", "--wait", "--project", "--debug", "--no-input"} <= names, path
        seen += 1
        pending.extend((f"{path} {k}", v) for k, v in getattr(node, "commands", {}).items())
    assert seen > 50
