"""What does a new machine's cloud-init read? A NoCloud volume with the tenant's keys."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nodeagent.host.commands import CommandError, run
from nodeagent.host.runtime.spec import vm_uuid


class SeedFailed(Exception):
    """The volume was not made, and why."""


def seed_files(claim: str, hostname: str, user: str, keys: Sequence[str]) -> dict[str, str]:
    """The volume's files. JSON is YAML, and quotes whatever a key's comment holds."""
    account = {
        "name": user,
        "shell": "/bin/bash",
        "lock_passwd": True,
        "sudo": ["ALL=(ALL) NOPASSWD:ALL"],
        "ssh_authorized_keys": list(keys),
    }
    data = {
        "hostname": hostname,
        "users": [account],
        "disable_root": True,
        "ssh_pwauth": False,
    }
    meta = {"instance-id": vm_uuid(claim), "local-hostname": hostname}
    return {
        "user-data": "#cloud-config\n" + json.dumps(data, indent=1) + "\n",
        "meta-data": json.dumps(meta, indent=1) + "\n",
    }


def write_seed(target: Path, files: dict[str, str], xorriso: Path) -> None:
    """Make the volume in one step, readable by its owner only. Raises SeedFailed."""
    with tempfile.TemporaryDirectory(prefix=".seed-", dir=target.parent) as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_text(content)
        made = folder / "seed.iso"
        argv = [str(xorriso), "-as", "genisoimage", "-quiet", "-output", str(made)]
        argv += ["-volid", "cidata", "-joliet", "-rock", *(str(folder / file) for file in files)]
        try:
            ran = run(argv, timeout_s=60)
        except CommandError as error:
            raise SeedFailed(f"xorriso: {error.detail}") from error
        if ran.status != 0 or not made.exists():
            raise SeedFailed(f"xorriso ended with {ran.status}: {ran.complaint}")
        made.chmod(0o600)
        os.replace(made, target)
