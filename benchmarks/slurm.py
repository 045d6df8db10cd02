"""How does Slurm run beside us?  One controller with as many nodes as wanted, in memory.

The nodes are of the kind CLOUD, which the controller gives out before a daemon has started on
them, so that thousands need no process. A claim is ``salloc --no-shell``, which returns once the
controller has given the cores, and a release is ``scancel``: its own programs, its own
authentication, no accounting, no quota.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import clean_environment, slurm_programs
from gpuaas.embedded import processes

CORES = 8
CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={port}
SlurmdPort={other}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdTimeout=0
MinJobAge=2
MaxJobCount=100000
SlurmctldParameters=cloud_dns
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=3600
SuspendTimeout=1
ResumeTimeout=60000
NodeName=n[1-{nodes}] NodeAddr=127.0.0.1 CPUs={cores} RealMemory=2000 State=CLOUD
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def running(nodes: int) -> Iterator[dict[str, str]]:
    """A controller with so many nodes; the environment in which its programs find it.

    Raises PeerAbsent when Slurm is not installed.
    """
    programs = slurm_programs()
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    port = processes.free_port()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0], user=_account(), folder=folder, port=port,
            other=processes.free_port(avoid=[port]), nodes=nodes, cores=CORES,
        ),
        encoding="utf-8",
    )  # fmt: skip
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    env = clean_environment() | {"SLURM_CONF": str(configuration)}
    munged = [programs["munged"], "--foreground", "--force", f"--key-file={key}"]
    munged += [f"--socket={folder}/munge.sock", f"--pid-file={folder}/munge.pid"]
    munged += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        started = [processes.spawn(munged, log=folder / "out.log", env=env)]
        stack.callback(_ended, started)
        processes.wait_until(lambda: (folder / "munge.sock").exists(), 20.0)
        controller: list[str | Path] = [programs["slurmctld"], "-D", "-c", "-f", configuration]
        started.append(processes.spawn(controller, log=folder / "out.log", env=env))
        if not processes.wait_until(lambda: _gives(programs, env), 60.0, every_s=0.5):
            words = (folder / "out.log").read_text("utf-8", errors="replace")[-500:]
            raise RuntimeError(f"Slurm's controller gives no node: {words}")
        yield env


def _account() -> str:
    return "root" if os.geteuid() == 0 else os.environ.get("USER", "nobody")


def _gives(programs: dict[str, str], env: dict[str, str]) -> bool:
    """Whether one claim and release goes through."""
    job = claim(programs, env, 1)
    if job is None:
        return False
    release(programs, env, job)
    return True


def claim(programs: dict[str, str], env: dict[str, str], cores: int) -> str | None:
    """The number of a job that holds so many cores of one node, or None."""
    command = [programs["salloc"], "--no-shell", "--immediate=5", "-N1", f"-n{cores}", "-Jbench"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        told = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=10.0, check=False
        ).stderr
        _, granted, job = told.partition("Granted job allocation ")
        if granted:
            return job.split()[0]
    return None


def release(programs: dict[str, str], env: dict[str, str], job: str) -> None:
    """Give it back."""
    subprocess.run([programs["scancel"], job], env=env, check=True, timeout=10.0)


def _ended(started: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(started):
        process.terminate()
    for process in reversed(started):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10.0)
        process.kill()
