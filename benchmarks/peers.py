"""Where do the systems that we compare with live, and what is missing on this machine?

Each has an environment of its own under ``build/peers`` and runs as processes of its own on
loopback; nothing of theirs is imported here. What cannot be had is said, and skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gpuaas.config import CHECKOUT

FOLDER = CHECKOUT / "build" / "peers"
PLACEMENT = FOLDER / "placement"
PACKAGES = ("openstack-placement==16.0.0", "psycopg2-binary", "granian")
SLURM_PROGRAMS = ("munged", "slurmctld", "salloc", "scancel")
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/bin"))
INSTALL_S = 300.0


class PeerAbsent(Exception):
    """A peer cannot run here; the message says what would bring it."""


def clean_environment() -> dict[str, str]:
    """Ours without what would show our packages to a peer (one is called as one of ours)."""
    hidden = ("GPUAAS_", "PG", "PYTHON", "DJANGO_", "VIRTUAL_ENV", "SLURM_", "OS_")
    return {k: v for k, v in os.environ.items() if not k.startswith(hidden)} | {"PATH": PATH}


def placement_python() -> Path:
    """The interpreter of OpenStack Placement's environment, made when it is not there."""
    python = PLACEMENT / "bin" / "python"
    mark = PLACEMENT / "installed"
    if mark.exists() and mark.read_text(encoding="utf-8") == "\n".join(PACKAGES):
        return python
    FOLDER.mkdir(parents=True, exist_ok=True)
    uv = CHECKOUT / ".venv" / "bin" / "uv"
    commands: tuple[list[str | Path], ...] = (
        [uv, "venv", "--quiet", "--allow-existing", PLACEMENT],
        [uv, "pip", "install", "--quiet", "--python", python, *PACKAGES],
    )
    for command in commands:
        try:
            subprocess.run(
                command, env=clean_environment(), cwd=FOLDER, check=True, timeout=INSTALL_S,
                capture_output=True, text=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            words = getattr(error, "stderr", "") or str(error)
            raise PeerAbsent(f"OpenStack Placement was not installed: {words[-300:]}") from error
    mark.write_text("\n".join(PACKAGES), encoding="utf-8")
    return python


def slurm_programs() -> dict[str, str]:
    """Where Slurm's programs lie. Raises PeerAbsent, with how to install them."""
    found = {name: shutil.which(name, path=PATH) for name in SLURM_PROGRAMS}
    absent = [name for name, path in found.items() if path is None]
    if absent:
        raise PeerAbsent(
            f"Slurm is not installed ({', '.join(absent)} missing): "
            "apt-get install --no-install-recommends slurmctld slurm-client munge"
        )
    return {name: path for name, path in found.items() if path is not None}
