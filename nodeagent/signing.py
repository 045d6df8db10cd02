"""How does a node sign what it says, and check what it is told? Ed25519; keys as base64 text."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nodeagent.files import write_atomic
from nodeagent.protocol import signature_bytes


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """The node's private key; made on first use, on disk before it is used, mode 0600.

    Raises ValueError when the file is not a key: an agent never silently changes who it is.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        write_atomic(path, key.private_bytes_raw())
        return key
    return Ed25519PrivateKey.from_private_bytes(raw)


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half as 44 characters of base64."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode("ascii")


def sign(key: Ed25519PrivateKey, data: bytes) -> str:
    """Signature as 88 characters of base64."""
    return base64.b64encode(key.sign(data)).decode("ascii")


def verify(public_key: str, signature: str, data: bytes) -> bool:
    """Whether the signature was made over the data by the holder of that key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(signature_bytes(signature), data)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True
