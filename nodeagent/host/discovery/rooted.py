"""What of a host does only root see, that a discovery without rights needs to know?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodeagent.host.facts import Fact


@dataclass(frozen=True)
class RootSight:
    """What somebody with root's rights has seen.

    names, numbers: of the block devices in the first process's mount table, as `nvme0n1p1` and
    `259:1`. unreadable: why these may not be all, '' where they are. serials: of the GPUs by PCI
    address, from configuration space, of which others are shown the beginning. away: nobody was
    there to say anything now, and somebody may be in a moment.
    """

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    unreadable: str = ""
    serials: Mapping[str, Fact[str]] = field(default_factory=dict)
    away: bool = False


AskRoot = Callable[[], RootSight]
"""Never raises: who cannot be asked is the reason why something is unknown."""
