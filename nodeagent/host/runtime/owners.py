"""Whom does each machine run as?  A user of its own, from a range that nobody else has.

Machines of one user could read each other's memory, disks and sockets once QEMU itself was taken
over. A number is a machine's for as long as there is a record of it, which is until its cleanup was
proven; so no file or process of an earlier machine can belong to a later one.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from nodeagent.backend import BackendError
from nodeagent.host.config import VmConfig
from nodeagent.host.records import NO_UID


@dataclass(frozen=True)
class Owner:
    """Whom a machine's process and files belong to. groups: by which it opens /dev/kvm and images.

    What a machine makes is its user's alone, so a group in common gives it nothing of another's.
    """

    uid: int
    gid: int
    groups: tuple[int, ...]


def account_owner(account: str) -> Owner:
    """The account itself, as which only a machine from before is run. Raises KeyError."""
    entry = pwd.getpwnam(account)
    return Owner(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(account, entry.pw_gid)))


class Owners:
    """The range of the configuration, and the account whose groups its users have."""

    def __init__(self, config: VmConfig, proc: Path = Path("/proc")) -> None:
        self._account = config.user
        self._range = range(config.uid_first, config.uid_first + config.uid_count)
        self._proc = proc

    def choose(self, taken: Collection[int]) -> int:
        """A number for a new machine: no record, no account and no process has it.

        NO_UID where machines run as the helper's own user. Raises BackendError.
        """
        if not self._account:
            return NO_UID
        running = self._running()
        for uid in self._range:
            if uid not in taken and uid not in running and not _has_account(uid):
                return uid
        first, last = self._range[0], self._range[-1]
        detail = f"every user from {first} to {last} has a machine, a process or an account"
        raise BackendError("uids_used_up", detail, retryable=True)

    def nobodys(self, known: Collection[int]) -> list[int]:
        """Users of the range that have a process and no record."""
        if not self._account:
            return []
        return sorted(uid for uid in self._running() if uid in self._range and uid not in known)

    def of(self, uid: int) -> Owner | None:
        """Whom to run a machine as; None is this process' own user.

        A machine from before machines had users of their own keeps the account's. Raises KeyError
        when there is no such account.
        """
        if not self._account:
            return None
        account = account_owner(self._account)
        return account if uid == NO_UID else Owner(uid, uid, account.groups)

    def _running(self) -> set[int]:
        users = (user_of(entry) for entry in self._proc.iterdir() if entry.name.isdecimal())
        return {uid for uid in users if uid is not None}


def user_of(entry: Path) -> int | None:
    """The real user of a process' folder in /proc; None when it has ended.

    The folder's own owner is root's for a process that may not be dumped.
    """
    try:
        text = (entry / "status").read_text("utf-8", "replace")
    except OSError:
        return None
    line = next((one for one in text.splitlines() if one.startswith("Uid:")), "")
    words = line.split()
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else None


def give(path: Path, owner: Owner | None) -> None:
    """Hand one plain file over, never what a link points to. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(errno.EMLINK, "it has another name, or is no file")
        os.fchmod(file, 0o600)
        if owner is not None:
            os.fchown(file, owner.uid, owner.gid)
    finally:
        os.close(file)


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
