"""What was this agent about to do, what came of it, and who has been told?

One JSON line per fact, on disk before the agent acts on it: where it cannot be written, OSError is
raised and nothing has been begun. After a crash the last line may be torn
and is then ignored: its fact had not been acted on. The file is rewritten with what still matters
when it has grown.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodeagent.files import sync_folder, write_atomic
from nodeagent.protocol import WireError, load_json

_COMPACT_ABOVE_BYTES = 512 * 1024
_KEEP_TASKS = 256
_KEEP_RELEASED = 4096
log = logging.getLogger("nodeagent")


@dataclass(frozen=True)
class Outcome:
    """A result as it is sent, again and again, until it is acknowledged."""

    verb: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What is known of one task. outcome None: begun and not finished."""

    task_id: str
    epoch: int
    kind: str
    allocation_id: str | None
    boot_id: str
    outcome: Outcome | None = None
    acknowledged: bool = False


class Journal:
    """The agent's memory of tasks, in one append-only file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._released: dict[str, None] = {}
        self._size = 0
        self._read()
        self._begin()

    def entry(self, task_id: str) -> Entry | None:
        """What is known of a task; None when it is new."""
        return self._entries.get(task_id)

    def released(self, allocation_id: str) -> bool:
        """Whether this node has already given this allocation's devices back."""
        return allocation_id in self._released

    def unfinished(self) -> list[Entry]:
        """Tasks that were begun, have no result, and are still this node's to answer."""
        return [
            entry
            for entry in self._entries.values()
            if entry.outcome is None and not entry.acknowledged
        ]

    def undelivered(self) -> list[Entry]:
        """Tasks whose result nobody has acknowledged, oldest first."""
        return [
            entry for entry in self._entries.values() if entry.outcome and not entry.acknowledged
        ]

    def accept(self, entry: Entry) -> None:
        """Write down that a task is about to begin; on disk when this returns."""
        self._apply_and_append(
            {
                "fact": "accepted",
                "task": entry.task_id,
                "epoch": entry.epoch,
                "kind": entry.kind,
                "allocation": entry.allocation_id,
                "boot": entry.boot_id,
            }
        )

    def finish(self, task_id: str, outcome: Outcome) -> None:
        """Write down a result before it is sent for the first time."""
        self._apply_and_append(
            {"fact": "finished", "task": task_id, "verb": outcome.verb, "body": outcome.body}
        )

    def acknowledge(self, task_id: str) -> None:
        """The control plane has the result, or has said that it does not want it."""
        self._apply_and_append({"fact": "acknowledged", "task": task_id})

    def mark_released(self, allocation_id: str) -> None:
        """This allocation must never be provisioned here again."""
        self._apply_and_append({"fact": "released", "allocation": allocation_id})

    def _apply_and_append(self, fact: dict[str, Any]) -> None:
        line = (json.dumps(fact, separators=(",", ":")) + "\n").encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            left = line
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            # A full disk may have taken half of the line, and the next one would be lost with it.
            os.ftruncate(descriptor, self._size)
            raise
        finally:
            os.close(descriptor)
        self._apply(fact)
        self._size += len(line)
        if self._size > _COMPACT_ABOVE_BYTES:
            self._compact()
            self._size = self._path.stat().st_size

    def _apply(self, fact: dict[str, Any]) -> None:
        if fact["fact"] == "released":
            self._released[fact["allocation"]] = None
            return
        task_id = fact["task"]
        if fact["fact"] == "accepted":
            # A task that comes again under a higher epoch moves to the end.
            self._entries.pop(task_id, None)
            self._entries[task_id] = Entry(
                task_id, fact["epoch"], fact["kind"], fact["allocation"], fact["boot"]
            )
        elif task_id in self._entries and fact["fact"] == "finished":
            outcome = Outcome(fact["verb"], fact["body"])
            self._entries[task_id] = replace(self._entries[task_id], outcome=outcome)
        elif task_id in self._entries and fact["fact"] == "acknowledged":
            known = self._entries[task_id]
            # The result will not be sent again; a discovery's is large.
            told = None if known.outcome is None else Outcome(known.outcome.verb, {})
            self._entries[task_id] = replace(known, outcome=told, acknowledged=True)

    def _read(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        self._size = content.rfind(b"\n") + 1
        for line in content.split(b"\n"):
            if not line:
                continue
            try:
                fact = load_json(line, max_bytes=4 * 1024 * 1024)
                self._apply(fact)
            except (WireError, KeyError, TypeError):
                # Only the last line can be torn, and nothing follows it.
                continue

    def _begin(self) -> None:
        """Rewrite it; on a full disk it stays, without the torn line. Raises OSError."""
        try:
            self._compact()
        except OSError as error:
            log.warning("the journal was not rewritten: %s", error.strerror)
            if self._path.exists():
                os.truncate(self._path, self._size)
            return
        self._size = self._path.stat().st_size

    def _compact(self) -> None:
        """Rewrite with open tasks, the newest closed ones, and the newest releases."""
        closed = [entry for entry in self._entries.values() if entry.acknowledged]
        for entry in closed[:-_KEEP_TASKS]:
            del self._entries[entry.task_id]
        self._released = dict.fromkeys(list(self._released)[-_KEEP_RELEASED:])
        lines: list[dict[str, Any]] = [
            {"fact": "released", "allocation": allocation} for allocation in self._released
        ]
        for entry in self._entries.values():
            lines.extend(_facts(entry))
        content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        write_atomic(self._path, content.encode())
        sync_folder(self._path.parent)


def _facts(entry: Entry) -> list[dict[str, Any]]:
    """The lines that rebuild an entry."""
    facts: list[dict[str, Any]] = [
        {
            "fact": "accepted",
            "task": entry.task_id,
            "epoch": entry.epoch,
            "kind": entry.kind,
            "allocation": entry.allocation_id,
            "boot": entry.boot_id,
        }
    ]
    if entry.outcome is not None:
        outcome = {"verb": entry.outcome.verb, "body": entry.outcome.body}
        facts.append({"fact": "finished", "task": entry.task_id, **outcome})
    if entry.acknowledged:
        facts.append({"fact": "acknowledged", "task": entry.task_id})
    return facts
