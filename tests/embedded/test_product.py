"""Does the whole product come up from nothing, survive kills of each part, and go away?

Real processes in a data folder of its own, as `make up` starts them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gpuaas.config import CHECKOUT
from gpuaas.embedded import local, processes, state
from gpuaas.embedded.files import PASSABLE_FOLDER

PATIENCE_S = 90.0
KEPT = ("postgres", "valkey", "web", "worker")
COMMAND = [sys.executable, "-m", "gpuaas.embedded"]


class Product:
    """One data folder and the runner that holds it, if any."""

    def __init__(self, folder: Path) -> None:
        self.folders = state.Folders(folder)
        self.output = folder.with_suffix(".out")
        given = {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}
        self.env = {
            key: value
            for key, value in os.environ.items()
            if key not in given and not key.startswith("GPUAAS_")
        } | {"GPUAAS_DATA_DIR": str(folder)}
        self.runner: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.output, "wb") as output:
            self.runner = subprocess.Popen(
                [*COMMAND, "up"], cwd=CHECKOUT, env=self.env, stdout=output, stderr=output
            )

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, command],
            cwd=CHECKOUT,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def facts(self) -> dict[str, object]:
        return state.Lock(self.folders).holder()

    def parts(self) -> dict[str, dict[str, object]]:
        shown = self.facts().get("parts")
        return shown if isinstance(shown, dict) else {}

    def pid(self, part: str) -> int:
        return int(str(self.parts().get(part, {}).get("pid", 0)))

    def healthy(self) -> bool:
        shown = self.parts()
        return (
            {*KEPT} <= {*shown}
            and all(shown[part]["state"] == "ready" for part in KEPT)
            and local.is_ready(str(self.facts()["url"]))
        )

    def wait_healthy(self) -> None:
        def settled() -> bool:
            return self.healthy() or self.runner is None or self.runner.poll() is not None

        processes.wait_until(settled, PATIENCE_S, every_s=0.05)
        assert self.healthy(), self.output.read_text()

    def stop(self, signum: signal.Signals = signal.SIGINT) -> int:
        if self.runner is None:
            return 0
        if self.runner.poll() is None:
            self.runner.send_signal(signum)
        code = self.runner.wait(PATIENCE_S)
        self.runner = None
        return code

    def database(self) -> "psycopg.Connection[tuple[object, ...]]":
        left = json.loads(self.folders.services.read_text(encoding="utf-8"))
        return psycopg.connect(left["database_owner_url"], autocommit=True)


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    above = Path(tempfile.mkdtemp(prefix="gp-"))
    above.chmod(PASSABLE_FOLDER if os.geteuid() == 0 else 0o700)
    made = Product(above / "var")
    made.start()
    made.wait_healthy()
    with made.database() as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    yield made
    made.stop()
    local.remove(made.folders.root)
    shutil.rmtree(above)


@pytest.fixture
def running(product: Product) -> Product:
    if product.runner is None:
        product.start()
    product.wait_healthy()
    return product


def rows_kept(product: Product) -> object:
    with product.database() as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    return row[0] if row else None


def test_a_second_start_finds_the_first_and_says_where(running: Product) -> None:
    second = running.run("up")
    assert second.returncode == 0
    assert f"already runs at {running.facts()['url']}" in second.stdout
    assert running.run("status").returncode == 0


def test_secrets_are_closed_and_nothing_listens_beyond_loopback(running: Product) -> None:
    for file in [*running.folders.secrets.iterdir(), running.folders.services]:
        assert oct(file.stat().st_mode & 0o777) == "0o600", file.name
    for room in (running.folders.secrets, running.folders.run, running.folders.log):
        assert oct(room.stat().st_mode & 0o777) == "0o700", room.name
    shown = Path("/proc/net/tcp")
    if shown.exists():
        ports = json.loads((running.folders.run / "ports.json").read_text()).values()
        listening = [
            line.split()[1].split(":")
            for line in shown.read_text().splitlines()[1:]
            if line.split()[3] == "0A"
        ]
        ours = {(host, int(port, 16)) for host, port in listening if int(port, 16) in ports}
        assert {host for host, _ in ours} == {"0100007F"}


@pytest.mark.parametrize("part", KEPT)
def test_kill_minus_nine_of_a_part_is_survived_while_running(running: Product, part: str) -> None:
    before = running.pid(part)
    os.kill(before, signal.SIGKILL)
    assert processes.wait_until(lambda: running.pid(part) not in {0, before}, PATIENCE_S)
    running.wait_healthy()
    assert rows_kept(running) == 1000


def test_kill_minus_nine_of_a_web_process_is_survived(running: Product) -> None:
    main = running.pid("web")
    children = Path(f"/proc/{main}/task/{main}/children")
    if not children.exists():
        pytest.skip("this system does not show the children of a process")
    victim = int(children.read_text().split()[0])
    os.kill(victim, signal.SIGKILL)
    assert processes.wait_until(
        lambda: len(children.read_text().split()) == 2 and str(victim) not in children.read_text(),
        PATIENCE_S,
    )
    running.wait_healthy()
    assert running.pid("web") == main


def test_kill_minus_nine_of_the_runner_takes_all_down_and_the_next_start_brings_all_back(
    running: Product,
) -> None:
    pids = [running.pid(part) for part in KEPT]
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    assert processes.wait_until(lambda: not any(map(processes.alive, pids)), 30.0)
    running.start()
    running.wait_healthy()
    assert rows_kept(running) == 1000


def test_everything_killed_at_once_comes_back_with_nothing_lost(running: Product) -> None:
    with running.database() as connection:
        connection.execute("INSERT INTO kept SELECT generate_series(1001, 1010)")
        for part in KEPT:
            os.kill(running.pid(part), signal.SIGKILL)
        running.stop(signal.SIGKILL)
    running.start()
    running.wait_healthy()
    assert rows_kept(running) == 1010
    with running.database() as connection:
        connection.execute("DELETE FROM kept WHERE n > 1000")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything(running: Product, signum: signal.Signals) -> None:
    pids = [running.pid(part) for part in KEPT]
    assert running.stop(signum) == 0
    assert [pid for pid in pids if processes.alive(pid)] == []
    assert state.leftovers(running.folders.root) == []
    assert running.run("status").returncode == 3


def test_down_stops_from_another_terminal(running: Product) -> None:
    assert running.run("remove").returncode == 1
    down = running.run("down")
    assert (down.returncode, down.stdout) == (0, "gpuaas is stopped\n")
    assert running.runner is not None
    assert running.runner.wait(PATIENCE_S) == 0
    running.runner = None
    assert running.run("down").stdout == "gpuaas does not run\n"


@pytest.mark.slow
def test_a_first_start_that_is_interrupted_again_and_again_is_completed_by_the_next(
    short_folder: Path,
) -> None:
    product = Product(short_folder / "var")
    secrets = product.folders.secrets
    stations = (
        lambda: any(secrets.glob("*")),
        lambda: (product.folders.root / "postgres" / "data.new").exists(),
        lambda: (product.folders.root / "postgres" / "data").exists(),
        lambda: (product.folders.log / "migrate.log").exists(),
        lambda: "migrate" in product.parts() and product.pid("migrate") > 0,
        lambda: product.pid("web") > 0,
    )
    try:
        for reached in stations:
            product.start()
            there = processes.wait_until(reached, PATIENCE_S, every_s=0.001)
            assert there, product.output.read_text()
            product.stop(signal.SIGKILL)
        made = {path.name: path.read_text() for path in secrets.iterdir()}
        product.start()
        product.wait_healthy()
        assert {path.name: path.read_text() for path in secrets.iterdir()} == made
        assert product.stop() == 0
    finally:
        product.stop(signal.SIGKILL)
        local.remove(product.folders.root)
