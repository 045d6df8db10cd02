"""Which hosts does a fleet have? A JSON list, made into folders once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nodeagent.files import read_json
from nodeagent.protocol import WireError
from nodeagent.simhost.agent import TOKEN_FILE
from nodeagent.simhost.hardware import CONFIG_FILE, HardwareError, create_host, parse_config

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


def prepare(data: Path, spec: Path | None) -> list[Path]:
    """Make the folders that a spec asks for, and return those of all hosts in the data folder.

    A spec is a list of {name, topology, join_token?} with the optional facts of HardwareConfig;
    a relative topology path is taken from the spec's folder. A token is only used by a host that
    has not joined. Raises HardwareError when something in the spec is of no use.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    if spec is not None:
        for entry in _entries(spec):
            _create(data, spec.parent, entry)
    return sorted(path.parent for path in data.glob(f"*/{CONFIG_FILE}"))


def _create(data: Path, base: Path, entry: dict[str, Any]) -> None:
    config = parse_config(entry)
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HardwareError("a host's name has lower-case letters, digits, dots and hyphens")
    topology = entry.get("topology")
    if not isinstance(topology, str):
        raise HardwareError(f"host {config.name} names no topology file")
    folder = data / config.name
    new = not (folder / CONFIG_FILE).exists()
    create_host(folder, config, base / topology)
    token = entry.get("join_token")
    if new and isinstance(token, str) and token:
        path = folder / TOKEN_FILE
        path.touch(mode=0o600)
        path.write_text(token, "ascii")


def _entries(spec: Path) -> list[dict[str, Any]]:
    try:
        entries = read_json(spec)
    except WireError as error:
        raise HardwareError(f"{spec}: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise HardwareError(f"{spec} is no JSON list of hosts")
    return entries
