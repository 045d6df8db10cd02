"""A process that looks like QEMU to the agent: it is found, answers QMP, and holds its drives open.

It needs no emulator and starts at once. Its guest leaves a mark on every stand-in it is given, as a
tenant leaves data. Standard library only, since it is run by its path.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading

MARK = b"a tenant was here"


def _after(option: str) -> list[str]:
    words = sys.argv
    return [words[place + 1] for place in range(len(words) - 1) if words[place] == option]


def _value(words: str, name: str) -> str:
    return next((p[len(name) + 1 :] for p in words.split(",") if p.startswith(name + "=")), "")


class Guest:
    """What QMP asks about."""

    def __init__(self) -> None:
        self.status = "prelaunch"
        files = [_value(words, "file") for words in _after("-drive")]
        self.drives = [open(file, "r+b") for file in files if file.endswith(".img")]  # noqa: SIM115

    def answer(self, command: str) -> object:
        """One command's result."""
        if command == "query-status":
            return {"status": self.status, "running": self.status == "running"}
        if command == "query-uuid":
            return {"UUID": _after("-uuid")[0]}
        if command == "query-cpus-fast":
            return [{"cpu-index": 0, "thread-id": threading.get_native_id()}]
        if command == "cont":
            for drive in self.drives:
                drive.seek(512)
                drive.write(MARK)
                drive.flush()
            self.status = "running"
        return {}


def _serve(channel: socket.socket, guest: Guest) -> None:
    with channel, channel.makefile("rw") as stream:
        stream.write(json.dumps({"QMP": {"version": {}, "capabilities": []}}) + "\n")
        stream.flush()
        for line in stream:
            command = json.loads(line)["execute"]
            stream.write(json.dumps({"return": guest.answer(command)}) + "\n")
            stream.flush()
            if command == "quit":
                os._exit(0)


def main() -> None:
    """Probe like QEMU does, or be a machine until told to quit."""
    if any(word.startswith("isa-debug-exit") for word in sys.argv):
        sys.exit(85 if "accel=tcg" in _after("-machine")[0] else 1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    path = _after("-qmp")[0].removeprefix("unix:").partition(",")[0]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    guest = Guest()
    while True:
        channel, _ = listener.accept()
        threading.Thread(target=_serve, args=(channel, guest), daemon=True).start()


if __name__ == "__main__":
    main()
