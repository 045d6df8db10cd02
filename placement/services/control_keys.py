"""By which keys do hosts know the control plane's tasks, and how does that key become another?

Hosts must know a new key before it signs, and still know the old one until it has signed its last:
so the next key is made first and told with the present one, and only then takes its place. The one
of before is kept, so that there is a way back, until it is retired.

Keys are files of the control plane's machine, readable by their owner only; nothing of them but
their public halves leaves it. Each step is one rename, so that there is a key that signs at every
moment. Who did what, and why, is an event. It is written before the files change, and kept once
they have.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from django.conf import settings
from django.db import connection, transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from placement.control_key_errors import (
    ControlKeyBelieved,
    ControlKeyKept,
    ControlKeyMissing,
    ControlKeyPrepared,
    ControlKeySigns,
    ControlKeysUnusable,
)
from placement.models import Node
from placement.node_tasks import key_fingerprint
from placement.services.nodes import need_reason

OVERLAP: Final = timedelta(hours=1)
"""How long agents go on believing the key of before, once they have learned another."""
SIGNING, NEXT, FORMER = "signing", "next", "former"
ROLES: Final = (SIGNING, NEXT, FORMER)
LOOKS: Final = 5
"""How often the files are read until twice alike; a step changes them for moments only."""
_LOCK: Final = 0x6B657973
"""Of PostgreSQL's advisory locks: one change of the keys at a time."""


@dataclass(frozen=True, slots=True)
class ControlKey:
    """A key that is kept: its public half (base64), what it does, and until when it is needed."""

    public_key: str
    role: str
    retire_from: datetime | None = None
    """When the key of before may be retired."""

    @property
    def fingerprint(self) -> str:
        """Its short name, as hosts tell it: 16 hex digits of the SHA-256."""
        return key_fingerprint(self.public_key)


def control_keys_list() -> tuple[ControlKey, ...]:
    """The key that signs, then the next one and the one of before where there are such.

    Raises ControlKeysUnusable.
    """
    with _files():
        return _settled()


def control_keys_text(node: Node) -> str:
    """The file that root puts beside the helper of this node: every key that is kept."""
    keys = "".join(f'    "{key.public_key}",\n' for key in control_keys_list())
    return f'# {node.name}\nnode_id = "{node.pk}"\nkeys = [\n{keys}]\n'


def control_key_prepare(*, reason: str, actor: Actor) -> ControlKey:
    """Make the next key, readable by its owner only. It signs nothing yet.

    Raises ReasonMissing, ControlKeyPrepared where there is one, ControlKeysUnusable.
    """
    with _changing() as keys:
        if NEXT in keys:
            raise ControlKeyPrepared(fingerprint=keys[NEXT].fingerprint)
        pem = Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        scratch = _path(".new")
        scratch.unlink(missing_ok=True)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(descriptor)
        made = ControlKey(_public(scratch), NEXT)
        _told("prepared", keys, made, reason, actor)
        os.replace(scratch, _path(".next"))
    return made


def control_key_switch(*, key: str, reason: str, actor: Actor) -> ControlKey:
    """Let the next key sign from now on, and keep the present one for the way back.

    ``key``: its fingerprint, so that nothing else is confirmed than was looked at. Raises
    ReasonMissing, ControlKeyMissing, ControlKeyKept while there is one of before,
    ControlKeysUnusable.
    """
    with _changing() as keys:
        found = _named(keys, key, NEXT)
        if FORMER in keys:
            raise ControlKeyKept(fingerprint=keys[FORMER].fingerprint)
        _told("switched", keys, found, reason, actor)
        # One that is the present key as well was left by a step that was cut off.
        _path(".former").unlink(missing_ok=True)
        os.link(_path(), _path(".former"))
        _signed_last(_path(".former"))
        os.replace(_path(".next"), _path())
    return ControlKey(found.public_key, SIGNING)


def control_key_back(*, key: str, reason: str, actor: Actor) -> ControlKey:
    """Let the key of before sign again, and keep the present one in its stead.

    ``key``: its fingerprint. Raises ReasonMissing, ControlKeyMissing, ControlKeysUnusable.
    """
    with _changing() as keys:
        found = _named(keys, key, FORMER)
        _told("taken_back", keys, found, reason, actor)
        os.link(_path(), _path(".swap"))
        _signed_last(_path(".swap"))
        os.replace(_path(".former"), _path())
        os.replace(_path(".swap"), _path(".former"))
    return ControlKey(found.public_key, SIGNING)


def control_key_retire(*, key: str, reason: str, actor: Actor, at_once: bool = False) -> None:
    """Remove a key that does not sign: a next one that is not wanted, or the one of before.

    ``at_once``: also the one of before that hosts may still be given work by, as after a theft;
    such work is refused and given again. Raises ReasonMissing, ControlKeyMissing, ControlKeySigns;
    without ``at_once`` ControlKeyBelieved, with the time; ControlKeysUnusable.
    """
    with _changing() as keys:
        found = _named(keys, key, *ROLES)
        if found.role == SIGNING:
            raise ControlKeySigns(fingerprint=key)
        if found.retire_from is not None and clock.now() < found.retire_from and not at_once:
            raise ControlKeyBelieved(fingerprint=key, until=found.retire_from.isoformat())
        _told("retired", keys, found, reason, actor)
        _path(f".{found.role}").unlink()


def _named(keys: dict[str, ControlKey], fingerprint: str, *roles: str) -> ControlKey:
    for role in roles:
        if role in keys and keys[role].fingerprint == fingerprint:
            return keys[role]
    there = {role: key.fingerprint for role, key in keys.items()}
    raise ControlKeyMissing(
        f"No key of the fingerprint {fingerprint[:40]!r} is {' or '.join(roles)}.",
        errors=(errors.FieldError("/key", "unknown", f"none that is {' or '.join(roles)}"),),
        **there,
    )


def _told(
    act: str, keys: dict[str, ControlKey], key: ControlKey, reason: str, actor: Actor
) -> None:
    events.record(
        kind=f"placement.control_key.{act}",
        actor=actor,
        reason=need_reason(reason),
        before={role: one.fingerprint for role, one in keys.items()},
        facts={"key": key.fingerprint, "public_key": key.public_key},
    )


@contextmanager
def _changing() -> Iterator[dict[str, ControlKey]]:
    """What is kept, by role, while nobody else changes it; events are kept with the change."""
    with transaction.atomic(), _files():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        # Left where a way back was cut off: with the first rename, or before it.
        if _path(".swap").exists():
            if _path(".former").exists():
                _path(".swap").unlink()
            else:
                os.replace(_path(".swap"), _path(".former"))
        yield {key.role: key for key in _kept()}
        _settle(_path().parent)


def _settle(folder: Path) -> None:
    """Have the names in a folder outlive a loss of power, before what was done is on record; where
    the file system cannot, they do so a little later."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _files() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise ControlKeysUnusable(f"{problem.filename}: {problem.strerror}") from problem


def _settled() -> tuple[ControlKey, ...]:
    """What is kept, read twice alike: a step that changes it meanwhile may show a half of each."""
    before: tuple[ControlKey, ...] = ()
    for _ in range(LOOKS):
        now = tuple(_kept())
        if now == before:
            break
        before = now
    return now


def _kept() -> Iterator[ControlKey]:
    signing = _public(_path())
    yield ControlKey(signing, SIGNING)
    # A file that goes between two looks at it was not there.
    with suppress(FileNotFoundError):
        yield ControlKey(_public(_path(".next")), NEXT)
    # Between the renames of a way back, or where it was cut off there, it has the name of the swap.
    for former in (_path(".former"), _path(".swap")):
        with suppress(FileNotFoundError):
            public = _public(former)
            since = datetime.fromtimestamp(former.stat().st_mtime, UTC)
            # A step that was cut off leaves the present key there too.
            if public != signing:
                yield ControlKey(public, FORMER, since + OVERLAP)
            return


def _signed_last(path: Path) -> None:
    """Keep with a key's file that it signs until now."""
    at = clock.now().timestamp()
    os.utime(path, (at, at))


def _path(ending: str = "") -> Path:
    present: Path = settings.CONFIG.control_key_path
    return present.with_name(present.name + ending)


def _public(path: Path) -> str:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as problem:
        raise ControlKeysUnusable(f"{path} is no key that can be read.") from problem
    if not isinstance(key, Ed25519PrivateKey):
        raise ControlKeysUnusable(f"{path} is not an Ed25519 key.")
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()
