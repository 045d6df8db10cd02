"""Does anything wait for a host that asks?  Found out by the statement that takes its number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placement.models import Node
from placement.services.signatures import KNOWN, SEEN, TAKEN, Signed, host_of, number_take

# A task that is due, a lease that may have ended, or a burn-in that was stopped.
_ASK: Final = (
    KNOWN
    + SEEN
    + TAKEN
    + """
SELECT known.id, known.name, known.state, known.boot_id, known.at,
       EXISTS (
       SELECT FROM placement_nodetask t
        WHERE t.node_id = known.id AND t.state IN ('pending', 'leased')
          AND (t.due_at <= known.at AND t.state = 'pending'
               OR t.lease_until < known.at AND t.state = 'leased'))
       OR EXISTS (
       SELECT FROM placement_nodetask t
        WHERE t.node_id = known.id AND t.state = 'cancelled' AND t.ended_at IS NULL)
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
