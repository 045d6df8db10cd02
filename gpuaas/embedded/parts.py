"""What does the product consist of when it runs on one machine, and what waits for what?"""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gpuaas.ahead import FLAG, WORD
from gpuaas.config import CHECKOUT
from gpuaas.embedded import logs, migrated, processes
from gpuaas.embedded.postgres import Postgres
from gpuaas.embedded.valkey import Valkey

# About a hundred requests may be parked per web process; the rest is for short ones.
WEB_WORKERS, WEB_THREADS = 2, 132
WORKER_THREADS = 4


class Part(Protocol):
    """Something the runner starts, watches and stops."""

    name: str
    after: tuple[str, ...]
    """Names of the parts that must have been ready once before this one begins."""
    ahead: bool
    """It is started at once and loads its code, and begins when it is told to."""
    once: bool
    """Runs to its end, which must be 0, instead of staying up."""
    patience_s: float
    """How long it may take to become ready before it counts as failed."""
    grace_s: float
    """How long it may take to stop before it is killed."""

    @property
    def pid(self) -> int: ...

    def launch(self) -> None: ...

    def begin(self) -> None: ...

    def ready(self) -> bool: ...

    def exit_code(self) -> int | None: ...

    def last_words(self) -> str: ...

    def ask_to_stop(self) -> None: ...

    def kill(self) -> None: ...


class Program:
    """A process of ours: its command, its log, and how it is known to be ready."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        log_folder: Path,
        after: Sequence[str] = (),
        ahead: bool = False,
        once: bool = False,
        is_ready: Callable[[], bool] = lambda: True,
        ready_file: Path | None = None,
        needless: Callable[[], bool] = lambda: False,
        on_success: Callable[[], None] = lambda: None,
        patience_s: float = 60.0,
        grace_s: float = 10.0,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.env = dict(env)
        self.log = log_folder / f"{name}.log"
        self.after = tuple(after)
        self.ahead = ahead
        self.once = once
        self.is_ready = is_ready
        self.ready_file = ready_file
        self.needless = needless
        self.on_success = on_success
        self.patience_s = patience_s
        self.grace_s = grace_s
        self.log_start = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Process number; 0 while there is no process."""
        return self.process.pid if self.process else 0

    def launch(self) -> None:
        """Starts the process; a task that has nothing to do ends at once instead."""
        if self.once and self.needless():
            self.process, self._code = None, 0
            return
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        self._code = None
        if self.ready_file is not None:
            self.ready_file.unlink(missing_ok=True)
        self.process = processes.spawn(
            self.command, log=self.log, env=self.env, cwd=CHECKOUT, listens=self.ahead
        )

    def begin(self) -> None:
        """Tells a process that loads ahead that what it stands on is ready."""
        if not self.ahead or self.process is None or self.process.stdin is None:
            return
        # One that has died meanwhile is seen by its exit code.
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(WORD)

    def ready(self) -> bool:
        """Whether it does its work now (for a task: whether it has done it)."""
        if self.once:
            return self.exit_code() == 0
        if self.exit_code() is not None or not self.is_ready():
            return False
        return self.ready_file is None or self.ready_file.exists()

    def exit_code(self) -> int | None:
        """None while it runs."""
        if self.process is None or self._code is not None:
            return self._code
        code = self.process.poll()
        if code == 0 and self.once:
            self.on_success()
        self._code = code
        return code

    def last_words(self) -> str:
        """The end of what this process has logged."""
        return logs.tail(self.log, self.log_start)

    def ask_to_stop(self) -> None:
        """Politely: what it has begun it may finish."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it and every process it has started."""
        if self.process is None:
            return
        processes.signal_group(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)


class Service:
    """PostgreSQL or Valkey as a part."""

    once = False
    ahead = False
    after: tuple[str, ...] = ()
    patience_s = 300.0  # recovery after a crash reads what was written since the last checkpoint
    grace_s = 20.0

    def __init__(self, name: str, server: Postgres | Valkey) -> None:
        self.name = name
        self.server = server
        self.log_start = 0

    @property
    def pid(self) -> int:
        """Process number; 0 while there is no process."""
        return self.server.process.pid if self.server.process else 0

    def launch(self) -> None:
        """Makes what is missing and starts the server."""
        log = self.server.log
        self.log_start = log.stat().st_size if log.exists() else 0
        if isinstance(self.server, Postgres):
            self.server.prepare()
        self.server.launch()

    def begin(self) -> None:
        """It began when it was launched: nothing is beneath it."""

    def ready(self) -> bool:
        """Whether it takes connections (PostgreSQL: and has our roles)."""
        if not self.server.ready():
            return False
        if isinstance(self.server, Postgres):
            self.server.set_up_roles()
        return True

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.server.process.poll() if self.server.process else None

    def last_words(self) -> str:
        """The end of what this server has logged."""
        return logs.tail(self.server.log, self.log_start)

    def ask_to_stop(self) -> None:
        """Fast shutdown: connections are closed, nothing is lost."""
        if self.server.process is not None and self.server.process.poll() is None:
            self.server.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends it for good; the next start recovers."""
        if self.server.process is not None:
            processes.signal_group(self.server.process.pid, signal.SIGKILL)
            self.server.process.wait(5.0)


def migrate(env: Mapping[str, str], owner_url: str, log_folder: Path, note: Path) -> Program:
    """Brings the database to the code's state, as the owner of its tables."""
    return Program(
        "migrate",
        [sys.executable, "-m", "django", "migrate", "--no-input"],
        env={**env, "DATABASE_URL": owner_url, "DATABASE_OWNER_URL": owner_url},
        log_folder=log_folder,
        after=("postgres",),
        once=True,
        needless=lambda: migrated.nothing_to_do(note, owner_url),
        on_success=lambda: migrated.remember(note, owner_url),
        patience_s=600.0,
    )


def web(env: Mapping[str, str], host: str, port: int, log_folder: Path) -> Program:
    """The web server: tenants, operators, agents."""
    command = [sys.executable, "-m", "gpuaas.wsgi_server", FLAG, "--host", host]
    command += ["--port", str(port), "--workers", str(WEB_WORKERS), "--threads", str(WEB_THREADS)]
    return Program(
        "web",
        command,
        env=env,
        log_folder=log_folder,
        after=("migrate", "valkey"),
        ahead=True,
        is_ready=lambda: answers(host, port, "/readyz"),
    )


def worker(env: Mapping[str, str], run_folder: Path, log_folder: Path) -> Program:
    """The worker, which carries the ticker."""
    pid_file = run_folder / "worker.pid"
    command: list[str | Path] = [sys.executable, "-m", "gpuaas.celery_worker", FLAG]
    command += ["--threads", str(WORKER_THREADS), "--pid-file", pid_file]
    command += ["--log-level", env.get("GPUAAS_LOG_LEVEL", "INFO")]
    return Program(
        "worker",
        command,
        # The checks load every page's code, which a worker never runs; the web loads it too.
        env={**env, "CELERY_SKIP_CHECKS": "1"},
        log_folder=log_folder,
        after=("migrate", "valkey"),
        ahead=True,
        ready_file=pid_file,
    )


def answers(host: str, port: int, path: str, timeout_s: float = 2.0) -> bool:
    """Whether a GET is answered with 200."""
    if host in {"0.0.0.0", "::", ""}:
        host = "127.0.0.1"
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours, with what the runner decided, and with bounded memory for many threads."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    env |= {
        "DJANGO_SETTINGS_MODULE": "gpuaas.settings",
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        # One allocation arena per thread would cost more than the threads themselves.
        "MALLOC_ARENA_MAX": "2",
    }
    return env | dict(extra)
