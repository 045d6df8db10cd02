"""Which disks does the host itself live on, and what lies on the others?

A disk that is taken for free is given away and erased. So it is looked for in each way in which a
kernel says that it uses one: by number in the mount tables (a root may be mounted as /dev/root),
swap, layers above, the members of filesystems of several disks, and pools that have no layer. Where
a table cannot be read whole, every disk counts as used.

A service has mounts of its own, so the host's are those of the first process. They are hidden from
an agent that may not see other processes; then root is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.discovery.rooted import AskRoot, RootSight
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown

_OWN, _FIRST = "proc/self/mountinfo", "proc/1/mountinfo"
_TABLES = ("proc/mounts", _OWN, _FIRST, "proc/swaps")
# Hosts of many containers have long ones.
_MOST_TABLE_BYTES = 64 * 1024 * 1024
_NUMBERS = re.compile(r"\d{1,7}:\d{1,7}")
_HOLDS = re.compile(r"^E:(ID_FS_TYPE|ID_PART_TABLE_TYPE)=([A-Za-z0-9_.+-]{1,40})$", re.MULTILINE)
_ZFS = "zfs_member"
# What a namespace of an NVMe or a part of one is called, and numbers that are of some device.
_NVME = re.compile(r"nvme\d{1,5}(c\d{1,5})?n\d{1,5}(p\d{1,5})?")
_MOST_TOLD = 4096


@dataclass(frozen=True)
class HostBlocks:
    """What the host uses. unreadable: the table that could not be read, '' when all could."""

    names: frozenset[str]
    numbers: frozenset[str]
    zfs: bool
    unreadable: str


def host_blocks(tree: Tree, ask_root: AskRoot | None = None) -> HostBlocks:
    """Names and numbers (as `259:1`) of the block devices that the host uses.

    ask_root: where the first process's mounts are hidden; None where nobody can be asked.
    """
    names: set[str] = set()
    numbers: set[str] = set()
    unreadable, read = "", {place: _table(tree, place) for place in _TABLES}
    for place, table in read.items():
        if table.value is None and table.reason != "no_file" and place != _FIRST:
            unreadable = unreadable or f"{place}: {table.reason}"
        _take(table.value or "", place, names, numbers)
    hidden = _hidden(read[_FIRST], read[_OWN])
    if hidden and ask_root is not None:
        told = ask_root()
        names |= told.names
        numbers |= told.numbers
        hidden = told.unreadable and f"{hidden}, and {told.unreadable}"
    unreadable = unreadable or hidden
    for pool in tree.names(tree.path("sys/fs/btrfs")):
        names |= set(tree.names(tree.path("sys/fs/btrfs", pool, "devices")))
    for pool in tree.names(tree.path("sys/fs/bcachefs")):
        for member in tree.names(tree.path("sys/fs/bcachefs", pool)):
            block = tree.link_name(tree.path("sys/fs/bcachefs", pool, member, "block")).value
            names |= {block} if block else set()
    return HostBlocks(
        frozenset(names), frozenset(numbers), tree.exists("sys/module/zfs"), unreadable
    )


def first_mounts(tree: Tree) -> RootSight:
    """What the first process has mounted, for somebody from whom its table is hidden."""
    names: set[str] = set()
    numbers: set[str] = set()
    table = _table(tree, _FIRST)
    _take(table.value or "", _FIRST, names, numbers)
    names = {name for name in names if _NVME.fullmatch(name)}
    # Those of no device are of file systems that have none; there are thousands for containers.
    numbers = {number for number in numbers if not number.startswith("0:")}
    unreadable = "" if table.value is not None else f"{_FIRST}: {table.reason}"
    if max(len(names), len(numbers)) > _MOST_TOLD:
        return RootSight(unreadable=f"{_FIRST}: it has more than {_MOST_TOLD} devices")
    return RootSight(frozenset(names), frozenset(numbers), unreadable)


def _table(tree: Tree, place: str) -> Fact[str]:
    return tree.text(tree.path(place), most=_MOST_TABLE_BYTES)


def _hidden(first: Fact[str], own: Fact[str]) -> str:
    """Why the first process's table is not known, where there must be one; '' where it is.

    A kernel that shows a process its own table has one for each.
    """
    if first.value is not None or (first.reason == "no_file" and own.reason == "no_file"):
        return ""
    return f"{_FIRST} is hidden from this process ({first.reason})"


def _take(table: str, place: str, names: set[str], numbers: set[str]) -> None:
    """Add the devices of a table."""
    for line in table.splitlines():
        words = line.split()
        if place.endswith("mountinfo"):
            if len(words) > 2 and _NUMBERS.fullmatch(words[2]):
                numbers.add(words[2])
            # After the hyphen stand the type and the source (proc_pid_mountinfo(5)).
            words = words[words.index("-") + 2 :] if "-" in words else []
        if words and words[0].startswith("/dev/"):
            # bcachefs names all its disks in one.
            names |= {one.rpartition("/")[2] for one in words[0].split(":")}


def used(tree: Tree, block: str, host: HostBlocks) -> bool:
    """Whether the host uses a disk: itself, by a partition, or by what lies above either."""
    if host.unreadable:
        return True
    parts = _parts(tree, block)
    if any(part.name in host.names for part in parts):
        return True
    if any(name.startswith(f"{block}p") for name in host.names):
        return True
    if any(tree.text(part / "dev").value in host.numbers for part in parts):
        return True
    if any(tree.names(part / "holders") for part in parts):
        return True
    # A pool's disks have no layer above them; which of them are in use only ZFS itself knows.
    return host.zfs and any(_ZFS in _told(tree, part) for part in parts)


def holds(tree: Tree, blocks: list[str]) -> Fact[object]:
    """What udev has found on the disks: filesystems and partition tables."""
    if not tree.exists("run/udev/data"):
        return unknown("no_udev")
    found = {word for block in blocks for part in _parts(tree, block) for word in _told(tree, part)}
    return present(" ".join(sorted(found))) if found else absent("nothing_found")


def _parts(tree: Tree, block: str) -> list[Path]:
    base = tree.path("sys/block", block)
    return [base, *(base / name for name in tree.names(base) if name.startswith(f"{block}p"))]


def _told(tree: Tree, part: Path) -> list[str]:
    number = tree.text(part / "dev").value or ""
    if not _NUMBERS.fullmatch(number):
        return []
    told = tree.text(tree.path("run/udev/data", f"b{number}")).value or ""
    return [found.group(2) for found in _HOLDS.finditer(told)]
