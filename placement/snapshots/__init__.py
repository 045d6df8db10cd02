"""What does a request meet, and where is room?  The database, frozen for the domain."""

from placement.snapshots.counts import census, isolation_promised, outside
from placement.snapshots.orders import Ask, Look, Usage, image_of, look, look_many
from placement.snapshots.outlook import lookahead_of
from placement.snapshots.part_counts import part_census
from placement.snapshots.parts import (
    part_candidates,
    part_locked,
    part_nearest,
)
from placement.snapshots.places import (
    ANYWHERE,
    Target,
    candidates,
    locked,
    nearest,
    never_with,
    size_of,
)

__all__ = [
    "ANYWHERE",
    "Ask",
    "Look",
    "Target",
    "Usage",
    "candidates",
    "census",
    "image_of",
    "isolation_promised",
    "locked",
    "look",
    "look_many",
    "lookahead_of",
    "nearest",
    "never_with",
    "outside",
    "part_candidates",
    "part_census",
    "part_locked",
    "part_nearest",
    "size_of",
]
