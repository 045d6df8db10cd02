"""Does anything wait for a host that asks?  Found out by the statement that takes its number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placement.models import Node
from placement.services.signatures import HAD, KNOWN, SEEN, TAKEN, Signed, host_of, number_take

# Asked once node and credential are had: what is read then is not from before a wait for them.
_ASK: Final = (
    KNOWN
    + HAD
    + TAKEN
    + SEEN
    + """
SELECT known.id, known.name, known.state, known.boot_id, known.at,
       placement_work_waits(known.id, %(now)s::timestamptz)
  FROM known JOIN taken ON taken.id = known.credential
"""
)


@dataclass(frozen=True, slots=True)
class Asked:
    """When a host asked, and whether there may be something for it."""

    at: datetime
    due: bool


def node_asks(said: Signed) -> tuple[Node, Asked]:
    """The host that asks for work, whose signature holds, and what was found. Raises as
    number_take."""
    row = number_take(said, _ASK)
    return host_of(row), Asked(row[4], row[5])
