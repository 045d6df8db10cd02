"""What does an API token look like, and how is it recognised offline?

``gpuaas_pat_<12 key>_<32 secret><6 check>``: the key finds the row, the check lets a
scanner tell a token from noise, only a keyed hash of the whole is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY_LENGTH = 12
SECRET_LENGTH = 32
CHECK_LENGTH = 6
_FORM = re.compile(
    rf"gpuaas_(pat|svc)_([{ALPHABET}]{{12}})_([{ALPHABET}]{{32}})([{ALPHABET}]{{6}})"
)


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token taken apart."""

    kind: str
    key: str
    secret: str


def checksum(body: str) -> str:
    """Six base-62 digits of the CRC-32 of what stands before them."""
    value, out = zlib.crc32(body.encode()), ""
    for _ in range(CHECK_LENGTH):
        value, digit = divmod(value, 62)
        out = ALPHABET[digit] + out
    return out


def compose(kind: str, key: str, secret: str) -> str:
    """The text that is shown once."""
    body = f"gpuaas_{kind}_{key}_{secret}"
    return body + checksum(body)


def parse(text: str) -> TokenText | None:
    """The parts of a well-formed token, or None."""
    found = _FORM.fullmatch(text)
    if found is None or checksum(text[:-CHECK_LENGTH]) != found[4]:
        return None
    return TokenText(found[1], found[2], found[3])


def digest(text: str, pepper: bytes) -> bytes:
    """What is stored: HMAC-SHA-256 under a key that is not in the database."""
    return hmac.new(pepper, text.encode(), hashlib.sha256).digest()
