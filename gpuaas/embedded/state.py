"""What does a data folder remember of its runner: who holds it, on which ports, with what?"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuaas.embedded import processes
from gpuaas.embedded.files import PASSABLE_FOLDER, PRIVATE_FOLDER, private_folder, write_private

FIRST_WEB_PORT = 8000
# In the environment of everything a runner starts, so that the next one finds what is left.
MARK = "GPUAAS_KEPT_BY"


@dataclass(frozen=True)
class Folders:
    """The rooms of a data folder."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def services(self) -> Path:
        return self.run / "services.json"

    def make(self) -> None:
        """Makes them all, closed to others."""
        private_folder(self.root, PASSABLE_FOLDER if os.geteuid() == 0 else PRIVATE_FOLDER)
        for room in (self.run, self.secrets, self.log):
            private_folder(room)
        # Where collected static files go; a web server that finds no such folder complains.
        (self.root / "static").mkdir(exist_ok=True)


class Lock:
    """Held by the runner of a data folder for as long as it lives; the kernel lets it go."""

    def __init__(self, folders: Folders) -> None:
        self.path = folders.run / "runner.json"
        self._handle = -1

    def take(self) -> bool:
        """Whether it is ours now."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def free(self) -> bool:
        """Whether nobody holds it."""
        if not self.path.exists():
            return True
        if not self.take():
            return False
        self.release()
        return True

    def say(self, facts: Mapping[str, object]) -> None:
        """Writes who holds it, in place: the file is the lock and must stay the same file."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(dict(facts)).encode(), 0)

    def holder(self) -> dict[str, object]:
        """What the holder wrote; {} while it is still writing."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8") or "{}")
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def release(self) -> None:
        """Lets it go; nothing when it is not ours."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@dataclass(frozen=True)
class Ports:
    """Where the parts listen, the same at every start while nobody else took them."""

    postgres: int
    valkey: int
    web: int

    @classmethod
    def remembered(cls, folders: Folders, *, web: int | None, web_host: str) -> "Ports":
        """The ports of the last start, or new ones where those are taken; ``web`` is obeyed."""
        path = folders.run / "ports.json"
        try:
            last = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            last = {}

        def choose(name: str, first: int, avoid: tuple[int, ...], host: str = "127.0.0.1") -> int:
            port = last.get(name, first)
            if not isinstance(port, int) or port not in range(1, 65536) or port in avoid:
                return processes.free_port(avoid)
            return port if processes.port_is_free(port, host) else processes.free_port(avoid)

        postgres = choose("postgres", processes.free_port(), ())
        valkey = choose("valkey", processes.free_port(), (postgres,))
        chosen = web or choose("web", FIRST_WEB_PORT, (postgres, valkey), web_host)
        ports = cls(postgres, valkey, chosen)
        write_private(path, json.dumps(vars(ports)))
        return ports


def leftovers(root: Path) -> list[int]:
    """Processes that an earlier runner of this folder started and that outlived it.

    Found by the mark in their environment, which a reused process number cannot have. On
    systems without /proc there is nothing to read: there the parts end when their ports or
    pid files are found taken.
    """
    mark = f"{MARK}={root}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environment and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found
