"""Whose orders does the helper take, and which node is it? What root has written down beside it.

The agent learns the control plane's key over the network; the helper does not believe the agent.
It reads a file that only root may write, anew for every order, so that keys rotate without a
restart and a key that was taken out counts no more from the next order on.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError

KEYS_UNUSABLE = "control_keys_unusable"
_MOST_BYTES = 16 * 1024
_MOST_KEYS = 8
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")
_NODE = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True)
class ControlKeys:
    """node_id: this node's, as the control plane names it. keys: 44 characters of base64 each."""

    node_id: str
    keys: tuple[str, ...]


def read_control_keys(path: Path) -> ControlKeys:
    """The file, now. Raises BackendError, which says what is wrong with it and what would do."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(path, f"cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        _refuse_writable(path, os.fstat(descriptor))
        content = stream.read(_MOST_BYTES + 1)
    _refuse_writable(path, path.parent.stat(), "its folder")
    if len(content) > _MOST_BYTES:
        raise _unusable(path, f"is longer than {_MOST_BYTES} bytes")
    try:
        told = tomllib.loads(content.decode())
    except ValueError as error:
        raise _unusable(path, f"cannot be read as TOML: {error}") from error
    return _parsed(path, told)


def _parsed(path: Path, told: dict[str, Any]) -> ControlKeys:
    strange = sorted(set(told) - {"node_id", "keys"})
    if strange:
        raise _unusable(path, f"has {strange[0]!r}, which is neither node_id nor keys")
    node_id, keys = told.get("node_id"), told.get("keys")
    if not isinstance(node_id, str) or not _NODE.fullmatch(node_id):
        raise _unusable(path, "has no node_id: the id by which the control plane names this node")
    if not isinstance(keys, list) or not 1 <= len(keys) <= _MOST_KEYS:
        raise _unusable(path, f"must have 1 to {_MOST_KEYS} keys")
    for place, key in enumerate(keys):
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise _unusable(path, f"keys[{place}] is no Ed25519 public key in base64")
    return ControlKeys(node_id, tuple(keys))


def _refuse_writable(path: Path, found: os.stat_result, what: str = "it") -> None:
    """Whoever else may write it could put a key of their own into it."""
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not plain or others or found.st_uid not in (0, os.geteuid()):
        raise _unusable(path, f"{what} must be root's, and only root may write it")


def _unusable(path: Path, why: str) -> BackendError:
    detail = f"{path}: {why}; `manage.py control_keys --node NAME` on the control plane prints it"
    return BackendError(KEYS_UNUSABLE, detail[:2000], retryable=True)
