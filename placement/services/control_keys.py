"""By which keys do hosts know the control plane's tasks, and how does that key become another?

Hosts must know a new key before it signs, and still know the old one until it has signed its last:
so the next key is made first and told with the present one, and only then takes its place.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from django.conf import settings

from placement.models import Node


class ControlKeyProblem(Exception):
    """What was asked for cannot be done now; the text says what would do."""


def control_keys_list() -> tuple[str, ...]:
    """Public keys in base64: the one that signs, and the next one where it was prepared."""
    return tuple(_public(path) for path in (_present(), _next()) if path.exists())


def control_keys_text(node: Node) -> str:
    """The file that root puts beside the helper of this node."""
    keys = "".join(f'    "{key}",\n' for key in control_keys_list())
    return f'# {node.name}\nnode_id = "{node.pk}"\nkeys = [\n{keys}]\n'


def control_key_prepare() -> str:
    """Make the next key, readable by its owner only; gives its public half.

    Raises ControlKeyProblem where there is one.
    """
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    scratch = _next().with_suffix(".new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(descriptor)
    try:
        # Refused where a next key is there: hosts may have been told of it.
        os.link(scratch, _next())
    except FileExistsError:
        raise ControlKeyProblem(
            f"a next key is prepared already ({_next()}): switch to it, or remove it"
        ) from None
    finally:
        scratch.unlink()
    return _public(_next())


def control_key_switch() -> str:
    """Let the next key take the place of the present one; gives its public half.

    What runs signs with the old one until it is restarted. Raises ControlKeyProblem.
    """
    if not _next().exists():
        raise ControlKeyProblem("no next key is prepared: prepare one, and tell every host of it")
    public = _public(_next())
    os.replace(_next(), _present())
    return public


def _present() -> Path:
    return settings.CONFIG.control_key_path


def _next() -> Path:
    return _present().with_name(f"{_present().name}.next")


def _public(path: Path) -> str:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ControlKeyProblem(f"{path} is not an Ed25519 key")
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()
