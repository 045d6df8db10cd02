"""How is the product brought up from a data folder, whatever the last run left there?"""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuaas.config import Config, ConfigError, data_dir_from
from gpuaas.embedded import parts, processes, state
from gpuaas.embedded.files import kept_secret, write_private
from gpuaas.embedded.keys import control_key_kept
from gpuaas.embedded.parts import Part, Service
from gpuaas.embedded.postgres import OWNER, Postgres, Roles, elsewhere, end_leftover
from gpuaas.embedded.runner import Runner
from gpuaas.embedded.valkey import Valkey

Say = Callable[[str], None]


@dataclass(frozen=True)
class AlreadyRunning(Exception):
    """Another runner holds the data folder."""

    pid: int
    url: str
    healthy: bool


@dataclass(frozen=True)
class Plan:
    """What will run, where, and with which environment. ``extra`` parts may be built from it."""

    folders: state.Folders
    env: Mapping[str, str]
    url: str
    parts: tuple[Part, ...]


def up(
    *,
    say: Say,
    extra: Callable[[Plan], list[Part]] = lambda plan: [],
    on_healthy: Callable[[Plan, Runner], None] = lambda plan, runner: None,
) -> None:
    """Runs the product until a signal. Raises AlreadyRunning, RunnerError and their kin.

    ``on_healthy`` is called once, when every part is up, in the thread of the runner.
    """
    folders = state.Folders(data_dir_from(os.environ))
    folders.make()
    lock = state.Lock(folders)
    if not lock.take():
        raise found_running(lock)
    try:
        _end_leftovers(folders.root, say)
        plan = make_plan(folders)
        facts: dict[str, object] = {"pid": os.getpid(), "url": plan.url}
        lock.say(facts)
        runner = Runner(
            [*plan.parts, *extra(plan)],
            say=say,
            on_change=lambda runner: lock.say({**facts, "parts": runner.describe()}),
        )
        runner.run(lambda: on_healthy(plan, runner))
    finally:
        folders.services.unlink(missing_ok=True)
        lock.release()


def found_running(lock: state.Lock) -> AlreadyRunning:
    """Who holds the folder; waits a moment for one that is just beginning to say so."""
    processes.wait_until(lambda: "url" in lock.holder(), 3.0)
    holder = lock.holder()
    url = str(holder.get("url", ""))
    return AlreadyRunning(int(str(holder.get("pid", 0))), url, bool(url) and is_ready(url))


def is_ready(url: str) -> bool:
    """Whether the web server at the address says that it is ready."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    return port.isdigit() and parts.answers(host.strip("[]"), int(port), "/readyz")


def make_plan(folders: state.Folders) -> Plan:
    """Decides ports, makes missing secrets, and writes where the services are."""
    folders.services.unlink(missing_ok=True)  # of the last run, about to be replaced
    config = Config.from_env()
    own_port = config.web_port if _given("GPUAAS_WEB_PORT") else None
    if own_port and not processes.port_is_free(own_port, config.web_host):
        raise ConfigError(f"GPUAAS_WEB_PORT: somebody else listens on {own_port}")
    ports = state.Ports.remembered(folders, web=own_port, web_host=config.web_host)

    services: list[Part] = []
    env: dict[str, str] = {
        "GPUAAS_DATA_DIR": str(folders.root),
        "GPUAAS_WEB_HOST": config.web_host,
        "GPUAAS_WEB_PORT": str(ports.web),
        state.MARK: str(folders.root),
    }
    owner_url = config.database_owner_url
    if not _given("DATABASE_URL"):
        roles = Roles.kept_in(folders.secrets)
        log = folders.log / "postgres.log"
        postgres = Postgres(folders.root, port=ports.postgres, roles=roles, log=log)
        services.append(Service("postgres", postgres))
        env["DATABASE_URL"] = postgres.url()
        owner_url = postgres.url(OWNER)
    if not _given("REDIS_URL"):
        password = kept_secret(folders.secrets / "valkey")
        log = folders.log / "valkey.log"
        valkey = Valkey(folders.root, port=ports.valkey, password=password, log=log)
        services.append(Service("valkey", valkey))
        env["REDIS_URL"] = valkey.url
    secret_key = config.secret_key
    if not _given("GPUAAS_SECRET_KEY"):
        secret_key = kept_secret(folders.secrets / "django")
        env["GPUAAS_SECRET_KEY_FILE"] = str(folders.secrets / "django")
    if not _given("GPUAAS_CONTROL_KEY"):
        key = folders.secrets / "control_ed25519.pem"
        control_key_kept(key)
        env["GPUAAS_CONTROL_KEY_FILE"] = str(key)

    left = {
        "database_url": env.get("DATABASE_URL", config.database_url),
        "database_owner_url": owner_url,
        "redis_url": env.get("REDIS_URL", config.redis_url),
        "secret_key": secret_key,
        "web_port": str(ports.web),
    }
    write_private(folders.services, json.dumps(left))
    child = parts.child_environment(env)
    # Only migrations act as the owner of the tables.
    child.pop("DATABASE_OWNER_URL", None)
    child.pop("DATABASE_OWNER_URL_FILE", None)
    host = f"[{config.web_host}]" if ":" in config.web_host else config.web_host
    programs = (
        parts.migrate(child, owner_url, folders.log, folders.run / "migrated.json"),
        parts.web(child, config.web_host, ports.web, folders.log),
        parts.worker(child, folders.run, folders.log),
    )
    return Plan(folders, child, f"http://{host}:{ports.web}", (*services, *programs))


def _given(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def _end_leftovers(root: Path, say: Say = lambda line: None) -> None:
    """Ends what a killed runner left: most of it is already ending by itself."""
    left = state.leftovers(root)
    if not left:
        return
    say(f"an earlier run was cut off; ending {len(left)} of its processes")
    processes.wait_until(lambda: not any(processes.alive(pid) for pid in left), 3.0)
    for pid in state.leftovers(root):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def remove(root: Path) -> list[Path]:
    """Removes the data folder and what lies elsewhere for it; what was removed."""
    _end_leftovers(root)
    for home in (*elsewhere(root), root / "postgres"):
        end_leftover(home / "data")
    removed = []
    for path in (*elsewhere(root), root):
        if path.exists():
            shutil.rmtree(path)
            removed.append(path)
    return removed
