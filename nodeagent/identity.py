"""Who is this node to the control plane, and what must survive a restart of the agent?

A folder holds: `agent.key` (private key, 0600), `identity.json` (credential and the control plane's
key), `counters.json` (sequence numbers), `former-key.json` (the control plane's key of before,
while it still counts) and, until it is used, `join-token`. A power cut may leave the counters
empty: then they begin anew, and the control plane says what it saw last.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.files import read_json, sync_folder, write_json
from nodeagent.protocol import JoinAnswer, RenewAnswer, WireError
from nodeagent.signing import load_or_create_key

log = logging.getLogger("nodeagent")
# Numbers are reserved in blocks, so that not every request waits for the disk; a restart skips the
# rest of a block, which is allowed: sequences only have to rise.
_BLOCK = 256
_MAX_TOKEN_BYTES = 512
_MOST_REPORTS = 2**40
OVERLAP_S = 3600
"""How long the control plane's key of before counts beside the new one: its processes are restarted
one after the other, and some sign with the old key meanwhile."""


class HomeUnusable(Exception):
    """The agent cannot work with its folder. The text says what to do."""


@dataclass(frozen=True)
class Identity:
    """What a successful join gave. Times are unix seconds on the server's clock."""

    node_id: str
    node_name: str
    credential_id: str
    issued_at: int
    expires_at: int
    control_public_key: str
    poll_ms: int

    @property
    def renew_at(self) -> float:
        """When to renew: at half of the credential's life."""
        return self.issued_at + (self.expires_at - self.issued_at) / 2


class AgentHome:
    """The agent's folder on its host. token_drops: other places where a token may be left.

    Raises HomeUnusable when it cannot be read or written, or its key is none.
    """

    def __init__(self, folder: Path, *, token_drops: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self._token_paths = (folder / "join-token", *token_drops)
        self._complaints: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.key: Ed25519PrivateKey = load_or_create_key(folder / "agent.key")
            self.identity = self._read_identity()
            self._former = self._read_former()
            counters = self._read_counters()
        except OSError as error:
            raise unusable(folder, error) from error
        except ValueError as error:
            raise HomeUnusable(
                f"{folder}/agent.key is no key: put back the one that was there, or remove it and "
                "join anew with a new token"
            ) from error
        self._sequence, boot, self._reserved = counters[0], counters[1], counters[0]
        self._reports: tuple[str, int] = boot, counters[2]

    @property
    def journal_path(self) -> Path:
        """Where the journal is kept."""
        return self.folder / "journal.jsonl"

    @property
    def token_path(self) -> Path:
        """Where a token is looked for first."""
        return self._token_paths[0]

    def join_token(self) -> str | None:
        """The one-time token, when somebody has put one there that this user may read."""
        return next(filter(None, map(self._token_in, self._token_paths)), None)

    def set_aside_token(self, refused: str) -> None:
        """A token that was refused is kept out of the way, so that it is not tried for ever.

        Only that one: a new one may have been left while the old one was being tried.
        """
        for path in self._token_paths:
            if self._token_in(path) == refused:
                path.replace(path.with_name("join-token.refused"))

    def joined(self, answer: JoinAnswer) -> Identity:
        """Keep what a join gave, and only then drop the token: a lost reply must be repeatable."""
        identity = Identity(
            node_id=answer.node_id,
            node_name=answer.node_name,
            credential_id=answer.credential_id,
            issued_at=answer.server_time,
            expires_at=answer.expires_at,
            control_public_key=answer.control_public_key,
            poll_ms=answer.poll_ms,
        )
        self._keep_former("", 0)
        self._keep(identity)
        for path in self._token_paths:
            path.unlink(missing_ok=True)
        sync_folder(self.folder)
        return identity

    def renewed(self, identity: Identity, answer: RenewAnswer) -> Identity:
        """Keep what a renewal gave, and for a while the control plane's key of before."""
        told = answer.control_public_key or identity.control_public_key
        if told != identity.control_public_key:
            self._keep_former(identity.control_public_key, answer.server_time + OVERLAP_S)
        fresh = replace(
            identity,
            credential_id=answer.credential_id,
            issued_at=answer.server_time,
            expires_at=answer.expires_at,
            control_public_key=told,
        )
        self._keep(fresh)
        return fresh

    def former_keys(self, now: int) -> tuple[str, ...]:
        """The control plane's key of before, base64, where it still counts.

        now: unix seconds on the server's clock, which may have been set back: it counts for no more
        than OVERLAP_S before its end.
        """
        key, until = self._former
        return (key,) if key and until - OVERLAP_S <= now <= until else ()

    def forget(self) -> None:
        """Drop a credential that the control plane no longer takes; the key stays."""
        self._keep_former("", 0)
        self.identity = None
        (self.folder / "identity.json").unlink(missing_ok=True)

    def next_sequence(self) -> int:
        """A number above all that were given out before, also before a crash."""
        self._sequence += 1
        if self._sequence >= self._reserved:
            self._reserved = self._sequence + _BLOCK
            self._write_counters()
        return self._sequence

    def raise_sequence(self, last_seen: int) -> None:
        """The server has seen a higher number (a restored disk, for example): go above it."""
        self._sequence = max(self._sequence, last_seen)

    def next_report(self, boot_id: str) -> int:
        """Number of the next observed report of this boot, from 1."""
        boot, last = self._reports
        self._reports = (boot_id, last + 1 if boot == boot_id else 1)
        self._write_counters()
        return self._reports[1]

    def skip_reports(self, boot_id: str) -> None:
        """Reports of this boot were counted higher before: go up, twice as far each time."""
        boot, last = self._reports
        if boot == boot_id and last < _MOST_REPORTS:
            self._reports = boot, last * 2

    def _write_counters(self) -> None:
        boot, seq = self._reports
        counters = {"sequence": self._reserved, "report_boot": boot, "report_seq": seq}
        try:
            write_json(self.folder / "counters.json", counters, durable=False)
        except OSError as error:
            # A host whose disk is full must still be heard. After a restart the server says which
            # number it saw last, and the agent goes above it.
            log.warning("counters not written: %s", error.strerror)

    def _keep(self, identity: Identity) -> None:
        self.identity = identity
        write_json(self.folder / "identity.json", asdict(identity))

    def _keep_former(self, key: str, until: int) -> None:
        """In a file of its own, so that an agent of before can read the identity."""
        self._former = key, until
        path = self.folder / "former-key.json"
        try:
            if key:
                write_json(path, {"key": key, "until": until}, durable=False)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # Without it a task of the old key waits until all processes have the new one.
            log.warning("the key of before is not written: %s", error.strerror)

    def _read_former(self) -> tuple[str, int]:
        found = self._stored("former-key.json")
        stored: dict[str, Any] = found if isinstance(found, dict) else {}
        key, until = stored.get("key"), stored.get("until")
        return (key, until) if isinstance(key, str) and isinstance(until, int) else ("", 0)

    def _read_identity(self) -> Identity | None:
        """What a join gave; one that is damaged is none, and a new token is needed."""
        stored = self._stored("identity.json")
        try:
            return None if stored is None else Identity(**stored)
        except TypeError:
            self._complain(f"{self.folder}/identity.json is damaged: a new join token is needed")
            return None

    def _read_counters(self) -> tuple[int, str, int]:
        """The last sequence, and boot and number of the last report."""
        found = self._stored("counters.json")
        stored: dict[str, Any] = found if isinstance(found, dict) else {}
        try:
            sequence, seq = int(stored.get("sequence", 0)), int(stored.get("report_seq", 0))
        except (TypeError, ValueError):
            return 0, "", 0
        return max(0, sequence), str(stored.get("report_boot", "")), max(0, seq)

    def _stored(self, name: str) -> Any:
        try:
            return read_json(self.folder / name)
        except WireError as error:
            self._complain(f"{self.folder}/{name} is damaged and taken for none: {error}")
            return None

    def _token_in(self, path: Path) -> str:
        """The token in the file, or '' when there is none that can be read."""
        try:
            with path.open("rb") as stream:
                return stream.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            self._complain(
                f"{path} cannot be read: {error.strerror}; it must be a file of the agent's user"
            )
            return ""

    def _complain(self, what: str) -> None:
        """Each trouble once: tokens are looked for every few seconds."""
        if what not in self._complaints:
            self._complaints.add(what)
            log.warning("%s", what)


def unusable(folder: Path, error: OSError) -> HomeUnusable:
    """The trouble with the agent's folder as its operator needs it."""
    what = error.strerror or type(error).__name__
    return HomeUnusable(
        f"{error.filename or folder}: {what}; the agent's user must be able to write {folder} and "
        "everything in it"
    )
