"""Does the installed command behave as a process: signals, terminals, pipes, imports?"""

import os
import pty
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.fake_server import TOKEN, Call, FakeServer, Reply, listing

COMMAND = [sys.executable, "-m", "gpuaas.cli.main"]
ROOT = Path(__file__).resolve().parents[2]
RUNNING = {"id": "op-1", "kind": "k", "state": "running", "done": False, "progress": {}}


@pytest.fixture
def environ(server: FakeServer, tmp_path: Path) -> dict[str, str]:
    """The environment of a signed-in process."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "GPUAAS_SERVER": server.url,
        "GPUAAS_TOKEN": TOKEN,
    }


def test_data_and_messages_are_kept_apart(server: FakeServer, environ: dict[str, str]) -> None:
    server.on("GET", "/skus", listing({"name": "h100-slice"}, following="c1"))
    done = subprocess.run(
        [*COMMAND, "sku", "list", "-o", "name"], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout == "sku/h100-slice\n"
    assert "--all" in done.stderr


def test_a_refusal_is_the_exit_code_of_the_process(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, "request", "describe", "r-1"], env=environ, capture_output=True, check=False
    )
    assert done.returncode == 3
    assert done.stdout == b""


def test_ctrl_c_ends_at_once_with_130_and_names_the_operation(
    server: FakeServer, environ: dict[str, str]
) -> None:
    parked = threading.Event()
    release = threading.Event()

    def park(call: Call) -> Reply:
        if "wait" in call.query:
            parked.set()
            release.wait(30)
        return Reply(200, RUNNING)

    server.on("GET", "/operations/op-1", park)
    process = subprocess.Popen(
        [*COMMAND, "operation", "describe", "op-1", "--wait"],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A test run in the background of a shell hands on an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert parked.wait(30)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=10)
    finally:
        release.set()
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert stdout == ""
    assert "the operation goes on: gpuaas operation describe op-1" in stderr
    assert "Traceback" not in stderr


def test_a_closed_pipe_makes_no_noise(server: FakeServer, environ: dict[str, str]) -> None:
    server.on("GET", "/skus", listing(*({"name": f"sku-{n}"} for n in range(20_000))))
    process = subprocess.Popen(
        [*COMMAND, "sku", "list", "-o", "name"],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)
    assert first == "sku/sku-0\n"
    assert "Traceback" not in stderr


def test_on_a_terminal_states_are_coloured_unless_no_color_is_set(
    server: FakeServer, environ: dict[str, str]
) -> None:
    server.on("GET", "/tenants", listing({"name": "acme", "state": "suspended"}))
    terminal = {**environ, "TERM": "xterm-256color"}
    assert "\x1b[31m" in on_a_terminal([*COMMAND, "tenant", "list"], terminal)
    plain = on_a_terminal([*COMMAND, "tenant", "list"], {**terminal, "NO_COLOR": "1"})
    assert "suspended" in plain
    assert "\x1b[" not in plain


def test_a_password_is_asked_for_without_echo(server: FakeServer, environ: dict[str, str]) -> None:
    seen: list[str] = []

    def make(call: Call) -> Reply:
        seen.append(call.body["password"])
        return Reply(201, {"id": "tok-1", "token": TOKEN})

    server.on("POST", "/auth/token", make)
    output = on_a_terminal(
        [*COMMAND, "login"],
        {**environ, "GPUAAS_TOKEN": "", "TERM": "dumb"},
        answers={"Email: ": "ada@example.org\n", "Password: ": "open sesame\n"},
    )
    assert seen == ["open sesame"]
    assert "signed in as ada@example.org" in output
    assert "open sesame" not in output


def test_a_destructive_command_asks_on_a_terminal_and_no_means_no(
    server: FakeServer, environ: dict[str, str]
) -> None:
    output = on_a_terminal(
        [*COMMAND, "allocation", "release", "0190b6f0-0000-7000-8000-000000000001"],
        environ,
        answers={"[y/N] ": "n\n"},
    )
    assert "nothing was changed" in output
    assert [call for call in server.calls if call.method == "POST"] == []


def test_the_client_imports_neither_django_nor_the_control_plane(
    environ: dict[str, str],
) -> None:
    code = (
        "import sys, gpuaas.cli.main\n"
        "own = {'tenants', 'admission', 'placement', 'runtime_enforcement', 'nodeagent'}\n"
        "shared = ('gpuaas.cli', 'gpuaas.version', 'gpuaas.cells')\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in own | {'django', 'celery'}\n"
        "  or m.startswith('gpuaas.') and not m.startswith(shared)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(environ: dict[str, str], shell: str) -> None:
    done = subprocess.run(
        [*COMMAND, "completion", shell], env=environ, capture_output=True, text=True, check=True
    )
    assert "_GPUAAS_COMPLETE" in done.stdout


def test_the_shell_gets_the_commands_of_a_noun(environ: dict[str, str]) -> None:
    # The variable's name follows the program's, which is main.py when run as a module.
    code = "import sys; sys.argv[0] = 'gpuaas'; from gpuaas.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **environ,
            "_GPUAAS_COMPLETE": "complete_bash",
            "COMP_WORDS": "gpuaas allocation ",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"create", "explain", "release", "timeline"} <= set(done.stdout.split())


def on_a_terminal(
    command: list[str], environ: dict[str, str], answers: dict[str, str] | None = None
) -> str:
    """Run the command on a pseudo-terminal, answer its prompts, and return what it showed."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        command, env=environ, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True,
        start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    shown, open_prompts = "", dict(answers or {})
    try:
        while select.select([controller], [], [], 30)[0]:
            try:
                chunk = os.read(controller, 65536)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk.decode()
            for prompt in [p for p in open_prompts if shown.endswith(p)]:
                os.write(controller, open_prompts.pop(prompt).encode())
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    return shown
