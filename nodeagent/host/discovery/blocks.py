"""Which disks does the host itself live on, and what lies on the others?

A disk that is taken for free is given away and erased. So it is looked for in each way in which a
kernel says that it uses one: by number in the mount tables (a root may be mounted as /dev/root),
swap, layers above, the members of filesystems of several disks, and pools that have no layer. Where
a table cannot be read whole, every disk counts as used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown

_TABLES = ("proc/mounts", "proc/self/mountinfo", "proc/1/mountinfo", "proc/swaps")
# Hosts of many containers have long ones.
_MOST_TABLE_BYTES = 64 * 1024 * 1024
_NUMBERS = re.compile(r"\d{1,7}:\d{1,7}")
_HOLDS = re.compile(r"^E:(ID_FS_TYPE|ID_PART_TABLE_TYPE)=([A-Za-z0-9_.+-]{1,40})$", re.MULTILINE)
_ZFS = "zfs_member"


@dataclass(frozen=True)
class HostBlocks:
    """What the host uses. unreadable: the table that could not be read, '' when all could."""

    names: frozenset[str]
    numbers: frozenset[str]
    zfs: bool
    unreadable: str


def host_blocks(tree: Tree) -> HostBlocks:
    """Names and numbers (as `259:1`) of the block devices that the host uses."""
    names: set[str] = set()
    numbers: set[str] = set()
    unreadable = ""
    for place in _TABLES:
        table = tree.text(tree.path(place), most=_MOST_TABLE_BYTES)
        # Other processes' tables may be hidden from an agent; its own may not.
        if table.value is None and table.reason != "no_file" and not place.startswith("proc/1/"):
            unreadable = unreadable or f"{place}: {table.reason}"
        for line in (table.value or "").splitlines():
            words = line.split()
            if place.endswith("mountinfo"):
                if len(words) > 2 and _NUMBERS.fullmatch(words[2]):
                    numbers.add(words[2])
                # After the hyphen stand the type and the source (proc_pid_mountinfo(5)).
                words = words[words.index("-") + 2 :] if "-" in words else []
            if words and words[0].startswith("/dev/"):
                # bcachefs names all its disks in one.
                names |= {one.rpartition("/")[2] for one in words[0].split(":")}
    for pool in tree.names(tree.path("sys/fs/btrfs")):
        names |= set(tree.names(tree.path("sys/fs/btrfs", pool, "devices")))
    for pool in tree.names(tree.path("sys/fs/bcachefs")):
        for member in tree.names(tree.path("sys/fs/bcachefs", pool)):
            block = tree.link_name(tree.path("sys/fs/bcachefs", pool, member, "block")).value
            names |= {block} if block else set()
    return HostBlocks(
        frozenset(names), frozenset(numbers), tree.exists("sys/module/zfs"), unreadable
    )


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
