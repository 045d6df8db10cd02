"""With which passwords does the demo open?  Made once per data folder, kept closed to others."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from pathlib import Path

from gpuaas.embedded.files import write_private

FILE = "demo_logins.json"
# Without the characters that are taken for one another; 77 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
GROUPS, LETTERS = 4, 4


def logins_kept(folder: Path, emails: Iterable[str]) -> dict[str, str]:
    """Password by address; those that are absent are made and kept first (mode 0600)."""
    path = folder / FILE
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        kept = {}
    known = {str(k): str(v) for k, v in kept.items()} if isinstance(kept, dict) else {}
    missing = [email for email in emails if email not in known]
    if missing:
        known |= {email: _password() for email in missing}
        write_private(path, json.dumps(known, indent=1))
    return known


def _password() -> str:
    """Easy to read out and to type."""
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(LETTERS)) for _ in range(GROUPS))
    return "-".join(groups)
