"""A real host's agent and helper as processes of their own, and a control plane for them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.host.cleanup.stand_in import SIZE_BYTES
from nodeagent.host.records import Records, Tenancy
from nodeagent.host.runtime.process import Machine, find
from nodeagent.host.runtime.spec import vm_uuid
from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    CandidateSlot,
    DeviceMode,
    SlotDevices,
    TaskKind,
    TaskParams,
    VmProvisionParams,
    VmReleaseParams,
)
from nodeagent.signing import public_text
from nodeagent.simhost.hardware import HardwareConfig, create_host, read_config, read_hardware
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.control import NODE, TOKEN, Control, serve
from tests.topologies import topology_file

ROOT = Path(__file__).resolve().parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtlZXAgdGhpcyBvdXQgb2YgdGhlIGxvZ3M= me@example.org"
QEMU = Path("/usr/bin/qemu-system-x86_64")
FAKE_QEMU = Path(__file__).with_name("fake_qemu.py")
FAKE_XORRISO = (
    '#!/bin/sh\nwhile [ "$1" != -output ]; do shift; done\ncat "$@" >/dev/null 2>&1\n: >"$2"\n'
)


class WallClock(FakeClock):
    """The host's clock: processes cannot be given another."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()


# Starts faster than anything but itself; a cleanup of a whole host calls one some seventy times.
HOOK = """#!/bin/sh
read -r told
echo "{{\\"hook\\": \\"{name}\\", \\"told\\": $told}}" >>{folder}/calls.jsonl
echo '{{"method": "{name}_done", "detail": "by the hook", "host": "10.0.0.7", "port": 22}}'
"""


# Its load is a wait; `hang` beside it makes it wait for ever, `bad` names a GPU that errs.
BURN_IN_HOOK = """#!{python} -SE
import json, os, sys, time
told = json.load(sys.stdin)
folder = "{folder}"
open(folder + "/burning", "w").write(str(os.getpid()))
time.sleep(600 if os.path.exists(folder + "/hang") else told["duration_s"])
bad = open(folder + "/bad").read() if os.path.exists(folder + "/bad") else ""
gpus = [dict(uuid=g["uuid"], ok=g["uuid"] != bad, detail="") for g in told["gpus"]]
verdict = "fail" if bad else "pass"
print(json.dumps(dict(method="load", detail="", verdict=verdict, ran_s=1, gpus=gpus)))
"""


@dataclass
class HostStage:
    """One host below a short folder, since socket paths are short."""

    folder: Path
    control: Control
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    agent: subprocess.Popen[bytes] | None = None
    helper: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        """The operator's file."""
        return self.folder / "agent.toml"

    @property
    def control_keys(self) -> Path:
        """Whose tasks the helper takes."""
        return self.folder / "control-keys.toml"

    def trust(self, *keys: str, node_id: str = NODE) -> None:
        """Write down these keys, as root would."""
        told = f'node_id = "{node_id}"\nkeys = {json.dumps(keys)}\n'
        self.control_keys.write_text(told)
        self.control_keys.chmod(0o644)

    @property
    def records(self) -> list[Tenancy]:
        """What the helper has on disk."""
        return Records(self.folder / "helper" / "tenancies").all()

    def start_helper(self) -> None:
        """Start the privileged half and wait until it listens."""
        socket = self.folder / "run" / "helper.sock"
        socket.unlink(missing_ok=True)
        self.helper = self._start("helper")
        assert until(socket.exists), "the helper did not start"

    def start_agent(self) -> None:
        """Start the agent."""
        self.agent = self._start("agent", "--heartbeat-s", "0")

    def kill_agent(self) -> None:
        """As a power cut would, if only for this process."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGKILL)
        self.agent.wait()

    def kill_helper(self) -> None:
        """The privileged half dies in the middle of whatever it does."""
        assert self.helper is not None
        self.helper.send_signal(signal.SIGKILL)
        self.helper.wait()

    def machine(self, claim: str) -> Machine | None:
        """The claim's machine, as the kernel has it."""
        return find(vm_uuid(claim), f"{self.folder}/run/machines/")

    def states(self) -> dict[str | None, str]:
        """Of the machines in the last report, by claim."""
        last = self.control.observed[-1:]
        return {vm.claim_ref: vm.state.value for report in last for vm in report.vms}

    def traces(self) -> list[int]:
        """Slots whose stand-in has anything on it."""
        files = (self.folder / "helper" / "stand-ins").glob("slot-*.img")
        return sorted(
            int(path.stem.removeprefix("slot-"))
            for path in files
            if path.read_bytes() != bytes(SIZE_BYTES)
        )

    def slots(self, *indexes: int) -> tuple[SlotDevices, ...]:
        """Slots as the control plane would name them."""
        host = self.folder / "sim"
        report = read_hardware(host, read_config(host))
        return tuple(_named(slot) for slot in report.slots if slot.index in indexes)

    def provision(self, *indexes: int, allocation: str = "alloc-1") -> VmProvisionParams:
        """Parameters of a slice."""
        return VmProvisionParams(allocation, "small", (KEY,), "tenant", self.slots(*indexes))

    def release(self, *indexes: int, allocation: str = "alloc-1") -> VmReleaseParams:
        """Parameters of its release."""
        return VmReleaseParams(allocation, 1, self.slots(*indexes))

    def bare_provision(self, allocation: str = "alloc-1") -> BaremetalProvisionParams:
        """Parameters of the whole host."""
        return BaremetalProvisionParams(
            allocation, "small", (KEY,), "tenant", self.slots(*range(8))
        )

    def bare_release(self, allocation: str = "alloc-1") -> BaremetalReleaseParams:
        """Parameters of its release."""
        return BaremetalReleaseParams(allocation, 1, self.slots(*range(8)))

    def completed(self, task_id: str) -> bool:
        """Whether the result has come."""
        return any(task == task_id for task, _ in self.control.completed)

    def answered(self, task_id: str) -> bool:
        """Whether a result of either kind has come."""
        failed = any(task == task_id for task, _ in self.control.failed)
        return failed or self.completed(task_id)

    def done(self, kind: TaskKind, params: TaskParams, task_id: str, *, epoch: int = 1) -> None:
        """Queue a task and wait until it is completed."""
        self.control.add(kind, params, task_id=task_id, epoch=epoch)
        assert until(lambda: self.completed(task_id), 60), self.control.failed

    def close(self) -> None:
        """End everything that was started here."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for tenancy in self.records:
            machine = self.machine(tenancy.claim)
            if machine is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(machine.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, what: str, *more: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{what}.log").open("ab")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "nodeagent.host", what, "--config", str(self.config), *more],
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            )
        self.processes.append(process)
        return process


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Look every few milliseconds until something holds, for a bounded time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def host_stage(
    *,
    qemu: Path | None = None,
    image: str = "",
    vm: str = "",
    server: str = "",
    token: str = TOKEN,
    images: Sequence[str] = ("small",),
    node_id: str = NODE,
    keys: Sequence[str] = (),
) -> Iterator[HostStage]:
    """A host that has not joined yet.

    qemu None: the fake one. image: the image's TOML table, under each of the names. server, token,
    node_id and keys: of another control plane than the tests' own.
    """
    folder = Path(tempfile.mkdtemp(prefix="gh-", dir="/tmp"))
    folder.chmod(0o755)
    control = Control(WallClock())
    create_host(folder / "sim", HardwareConfig("host-1"), topology_file("azure-ndv5-topo.xml"))
    hooks = folder / "hooks"
    hooks.mkdir()
    for name in ("provision", "power", "network", "sanitise"):
        _program(hooks / name, HOOK.format(name=name, folder=hooks))
    _program(hooks / "burn_in", BURN_IN_HOOK.format(folder=hooks, python=sys.executable))
    tools = ""
    if qemu is None:
        fake = _program(folder / "qemu", f"#!{sys.executable} -SE\n" + FAKE_QEMU.read_text())
        tools = f'qemu = "{fake}"\nxorriso = "{_program(folder / "xorriso", FAKE_XORRISO)}"\n'
        (folder / "kernel").write_bytes(b"")
    with serve(control) as own:
        stage = HostStage(folder, control)
        stage.trust(*(keys or (public_text(control.key),)), node_id=node_id)
        agent = folder / "agent"
        agent.mkdir()
        (agent / "join-token").write_text(token)
        stage.config.write_text(
            f'[agent]\nserver = "{server or own}"\nname = "host-1"\n'
            'agent_user = ""\nbaremetal = true\n'
            f'control_keys = "{stage.control_keys}"\n'
            f'agent_folder = "{agent}"\nhelper_folder = "{folder}/helper"\n'
            f'run_folder = "{folder}/run"\nmetrics_port = 0\nreplay_topology = "{folder}/sim"\n'
            f'[vm]\nemulate = true\ndevices = "stand_in"\nnetwork = "loopback"\n'
            f'ready = "running"\ngrace_s = 0\n{vm}\n'
            f"[tools]\n{tools}\n"
            + "".join(f'[images."{name}"]\n{image or _empty_kernel(folder)}\n' for name in images)
            + "".join(
                f'[hooks.{name}]\npath = "{hooks / name}"\ntimeout_s = 20\n'
                for name in ("provision", "power", "network", "sanitise", "burn_in")
            )
        )
        try:
            yield stage
        finally:
            stage.close()


def _empty_kernel(folder: Path) -> str:
    return f'kernel = "{folder}/kernel"\n'


def _program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _named(slot: CandidateSlot) -> SlotDevices:
    assert slot.gpu_uuid is not None
    own = slot.nic_mode is DeviceMode.EXCLUSIVE
    return SlotDevices(
        slot_index=slot.index,
        gpu_uuid=slot.gpu_uuid,
        nic=slot.nic if own else None,
        numa=slot.numa,
        cpuset=slot.cpuset,
        memory_bytes=slot.memory_bytes,
        nic_mode=slot.nic_mode,
        nvme_mode=slot.nvme_mode,
    )
