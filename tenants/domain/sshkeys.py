"""Is this text a public SSH key, and which?  Parsed, never passed to a shell."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

KINDS = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


class BadKey(ValueError):
    """Why a text is not a usable public key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key: its kind, its text without the comment, its SHA-256 fingerprint."""

    line: str
    kind: str
    comment: str
    fingerprint: str


def parse_public_key(text: str) -> PublicKey:
    """Read one authorized_keys line without options. Raises BadKey."""
    line = text.strip()
    if "PRIVATE KEY" in line:
        raise BadKey("this is a private key; never share it. Send the .pub file's line.")
    if "\n" in line or "\r" in line or "\0" in line:
        raise BadKey("one key a line")
    parts = line.split(None, 2)
    if len(parts) < 2 or parts[0] not in KINDS:
        raise BadKey(f"it does not start with a known key type ({', '.join(sorted(KINDS))})")
    kind, blob = parts[0], parts[1]
    try:
        raw = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        raise BadKey("the key is not valid base64") from None
    size = int.from_bytes(raw[:4], "big") if len(raw) > 4 else 0
    if raw[4 : 4 + size] != kind.encode():
        raise BadKey("the key's content does not match its type")
    if kind == "ssh-rsa" and len(raw) < 270:
        raise BadKey("an RSA key needs 2048 bits or more")
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
    comment = parts[2][:100] if len(parts) > 2 else ""
    return PublicKey(f"{kind} {blob}", kind, comment, f"SHA256:{digest}")
