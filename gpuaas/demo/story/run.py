"""How is the story run?  In a data folder and on ports of its own, beside whatever else runs."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from gpuaas.cli.problems import CliError
from gpuaas.config import ConfigError
from gpuaas.demo import parts, world
from gpuaas.demo.doing import NotSeen, Session
from gpuaas.demo.logins import logins_kept
from gpuaas.demo.story import cleanup, hosts, leases, truth
from gpuaas.demo.story.scene import Scene
from gpuaas.demo.story.teller import Broken, Teller
from gpuaas.embedded import local, processes
from gpuaas.embedded.files import PASSABLE_FOLDER, PRIVATE_FOLDER
from gpuaas.embedded.local import Plan
from gpuaas.embedded.parts import Part
from gpuaas.embedded.postgres import PostgresError
from gpuaas.embedded.runner import Runner, RunnerError
from gpuaas.embedded.valkey import ValkeyError

STEP_S = 0.15
INTERRUPTED = "it was interrupted"
ELSEWHERE = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL")

CHAPTERS: tuple[Callable[[Scene], None], ...] = (
    hosts.join,
    hosts.approve,
    leases.two_slots,
    leases.the_rest,
    leases.no_room,
    leases.too_much,
    leases.waiting,
    leases.whole_node,
    leases.drain,
    leases.part_of_a_gpu,
    cleanup.lie,
    cleanup.repair,
    cleanup.reuse,
    cleanup.suspend,
    truth.four_states,
    truth.record,
)


class Telling(threading.Thread):
    """The story, beside the runner whose parts it acts upon."""

    def __init__(self, plan: Plan, runner: Runner, tell: Teller) -> None:
        super().__init__(name="story", daemon=True)
        self.plan = plan
        self.runner = runner
        self.tell = tell
        self.failure = ""
        self.complete = False

    def run(self) -> None:
        """Every chapter in order; ends the runner in any case."""
        try:
            scene = _scene(self.plan, self.runner, self.tell)
            for chapter in CHAPTERS:
                chapter(scene)
            self.complete = True
        except (Broken, NotSeen) as broken:
            self.failure = str(broken)
        except CliError as error:
            self.failure = f"a call was not answered as expected: {error.message}"
        except Exception:
            self.failure = traceback.format_exc()
        finally:
            self.runner.finish()


def story(*, keep: bool) -> int:
    """Runs the story; 0 only if everything in it held."""
    above = Path(tempfile.mkdtemp(prefix="gpuaas-story-"))
    above.chmod(PASSABLE_FOLDER if os.geteuid() == 0 else PRIVATE_FOLDER)
    _own_environment(above / "var")
    tell = Teller()
    telling: list[Telling] = []
    print(f"the story plays in {above} and touches nothing else", flush=True)

    def say(line: str) -> None:
        if not telling:
            print(f"  [{time.monotonic() - tell.began:5.1f} s] {line}", flush=True)

    def healthy(plan: Plan, runner: Runner) -> None:
        telling.append(Telling(plan, runner, tell))
        telling[0].start()

    def extra(plan: Plan) -> list[Part]:
        return [parts.load_part(plan, say), parts.fleet_part(plan, STEP_S)]

    failure = INTERRUPTED
    try:
        local.up(say=say, extra=extra, on_healthy=healthy)
        if telling:
            telling[0].join(5.0)
            failure = "" if telling[0].complete else telling[0].failure or failure
    except (ConfigError, PostgresError, ValkeyError, RunnerError, OSError) as error:
        failure = f"the product could not be started: {error}"
    return _ended(tell, failure, above, keep)


def _scene(plan: Plan, runner: Runner, tell: Teller) -> Scene:
    people = [person.email for person in world.accounts()]
    passwords = logins_kept(plan.folders.secrets, people)

    def session(email: str) -> Session:
        return Session(plan.url, email, passwords[email], request_id="story")

    acme, helix, lumen = (session(tenant.owner.email) for tenant in world.TENANTS)
    return Scene(plan, runner, tell, session(world.OPERATORS[0].email), acme, helix, lumen)


def _own_environment(root: Path) -> None:
    """Nothing that the caller's shell points at may be used by the story."""
    for name in list(os.environ):
        if name.startswith("GPUAAS_") or name.removesuffix("_FILE") in ELSEWHERE:
            del os.environ[name]
    os.environ["GPUAAS_DATA_DIR"] = str(root)
    os.environ["GPUAAS_DEMO"] = "1"
    os.environ["GPUAAS_WEB_PORT"] = str(processes.free_port())


def _ended(tell: Teller, failure: str, above: Path, keep: bool) -> int:
    took = time.monotonic() - tell.began
    if failure == INTERRUPTED:
        _remove(above)
        print(f"\n{INTERRUPTED}; everything is stopped", file=sys.stderr)
        return 1
    if failure:
        print(f"\nTHE STORY DOES NOT HOLD, in chapter {tell.chapters}: {failure}", file=sys.stderr)
        print(f"logs are in {above / 'var' / 'log'}", file=sys.stderr)
        return 1
    if keep:
        print(f"\nthe data folder is kept: {above / 'var'}")
    else:
        _remove(above)
    print(
        f"\nEverything holds: {tell.checks} checks in {tell.chapters} chapters, {took:.0f} s. "
        "Everything is stopped.",
        flush=True,
    )
    return 0


def _remove(above: Path) -> None:
    local.remove(above / "var")
    above.rmdir()
