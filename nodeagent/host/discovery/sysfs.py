"""How is a small file of the kernel's read below some root, without being fooled or blocked?

The root is `/` on a host and a folder with a captured tree in a replay. A link that leads out of
the root is not followed.
"""

from __future__ import annotations

import os
from pathlib import Path

from nodeagent.host.facts import Fact, absent, present, unknown

MOST_BYTES = 256 * 1024


class Tree:
    """The files below a root. Paths are given without a leading slash."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def path(self, *parts: str) -> Path:
        """A place below the root."""
        return self.root.joinpath(*parts)

    def text(self, path: Path, *, most: int | None = None) -> Fact[str]:
        """A file's text without blanks around it, cut where it is long.

        most: bytes, where half of a file would mislead; a longer one is unknown.
        """
        real = self.inside(path)
        if real is None:
            return unknown("outside_root")
        try:
            with real.open("rb") as stream:
                raw = stream.read(MOST_BYTES if most is None else most + 1)
                if most is not None and len(raw) > most:
                    return unknown("too_large")
                return present(raw.decode("utf-8", "replace").strip())
        except FileNotFoundError:
            return absent("no_file")
        except PermissionError:
            return unknown("no_permission")
        except OSError as error:
            # Drivers answer EINVAL or EIO for an attribute that they cannot tell now.
            return unknown("io_error" if error.errno != 22 else "not_told")

    def number(self, path: Path, *, most: int = 2**63 - 1) -> Fact[int]:
        """A file with one integer; -1, nonsense and what is above `most` are unknown."""
        text = self.text(path)
        if text.value is None:
            return Fact(text.presence, None, text.reason)
        try:
            number = int(text.value)
        except ValueError:
            return unknown("not_a_number")
        if number < 0:
            return unknown("sentinel")
        return present(number) if number <= most else unknown("out_of_range")

    def names(self, path: Path) -> list[str]:
        """What a folder holds, sorted; nothing when it is not there."""
        real = self.inside(path)
        try:
            return sorted(os.listdir(real)) if real is not None else []
        except OSError:
            return []

    def link_name(self, path: Path) -> Fact[str]:
        """The last part of where a link points, for example a driver's name."""
        try:
            return present(os.path.basename(os.readlink(path)))
        except FileNotFoundError:
            return absent("no_link")
        except OSError:
            return unknown("io_error")

    def inside(self, path: Path) -> Path | None:
        """Where a path really leads; None when that is outside the root."""
        real = Path(os.path.realpath(path))
        return real if real == self.root or self.root in real.parents else None

    def exists(self, *parts: str) -> bool:
        """Whether there is something at a place below the root."""
        return os.path.lexists(self.path(*parts))
