"""Does this host's helper take the orders of the control plane that its agent has joined?

Told before any task is refused. A helper that says nothing of it, as one of before does, is
unknown and not wrong; where its file cannot be used, that is said elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from nodeagent.host.helper.wire import Belief
from nodeagent.identity import Identity
from nodeagent.protocol import Condition, key_fingerprint

WRONG_NODE, WRONG_KEYS = "helper_wrong_node", "helper_wrong_keys"


def believes(belief: Belief | None, control_key: str) -> bool | None:
    """Whether it takes what this key (base64) has signed; None where nobody knows."""
    if belief is None or not belief.keys:
        return None
    return control_key in belief.keys


def differences(
    belief: Belief | None, identity: Identity | None, file: Path
) -> tuple[Condition, ...]:
    """What the helper believes otherwise than its agent: what it has, what it should, what to do.

    file: where root has written it down.
    """
    if belief is None or not belief.node_id or identity is None:
        return ()
    way_out = (
        f"write it anew: `manage.py control_keys --node {identity.node_name}` on the control plane "
        "prints it; no task is done here until then"
    )
    found = []
    if belief.node_id != identity.node_id:
        said = f"{file} is of node {belief.node_id}, and this host joined as {identity.node_id}"
        found.append(Condition(WRONG_NODE, f"{said}; {way_out}"))
    if believes(belief, identity.control_public_key) is False:
        has = ", ".join(map(key_fingerprint, belief.keys))
        wanted = key_fingerprint(identity.control_public_key)
        said = f"{file} has the keys {has}, and the control plane signs with {wanted}"
        found.append(Condition(WRONG_KEYS, f"{said}; {way_out}"))
    return tuple(found)
