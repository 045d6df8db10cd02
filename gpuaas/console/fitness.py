"""What is shown of a host's evidence, its GPUs' health, its errors and its cleanups?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from placement import selectors
from placement.models import CleanupProof, Node, XidEvent
from placement.services.burn_in import burn_in_open

XIDS_SHOWN: Final = 20
PROOFS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class ShownXid:
    """One error with its words."""

    event: XidEvent
    meaning: str
    follows: str


@dataclass(frozen=True, slots=True)
class ShownProof:
    """One cleanup of one claim."""

    row: CleanupProof


def fitness_of(node: Node) -> dict[str, Any]:
    """Everything of the node's fitness that its page shows, in a handful of statements."""
    events = selectors.xid_list(node)[:XIDS_SHOWN]
    return {
        "capabilities": selectors.capability_list(node),
        "evidence": selectors.evidence_list(node),
        "devices": selectors.health_of(node),
        "burn_in": burn_in_open(node).first(),
        "xids": [ShownXid(event, *selectors.xid_words(event)) for event in events],
        "proofs": [ShownProof(row) for row in selectors.proof_list(node, PROOFS_SHOWN)],
    }
