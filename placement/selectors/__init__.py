"""What is so, about inventory, allocations and the work on hosts?  For people."""

from placement.selectors.allocations import (
    allocation_explain,
    allocation_list,
    allocation_phase,
    allocation_states,
    outcome_detail,
    request_explain,
    request_list,
)
from placement.selectors.blocks import (
    Block,
    blocks_on,
    override_of,
    residue_left,
    slot_blocks,
)
from placement.selectors.drift import (
    drift_list,
    drift_of_node,
    drift_standing,
    held_by_pool,
    held_list,
)
from placement.selectors.evidence import capability_list, evidence_list, proof_list
from placement.selectors.health import (
    classes_of,
    device_classes,
    health_of,
    unknown_machines,
    xid_list,
    xid_words,
)
from placement.selectors.holdings import Held, Holdings, holdings_of
from placement.selectors.identity import Differing, differences_of, identity_of
from placement.selectors.leases import deliverable_milli, leases_of_tenant, leases_of_tier
from placement.selectors.links import SlotLinks, links_of
from placement.selectors.nodes import (
    node_list,
    node_named,
    node_picture,
    node_states,
    posture_of,
    postures_of,
    residue_of,
    slot_list,
    task_list,
)
from placement.selectors.offers import Offer, image_list, offer_list, price_of
from placement.selectors.parts import HeldPart, free_milli, held_parts
from placement.selectors.phases import SkuPhases, Took, phases_by_sku
from placement.selectors.standing import reasons_standing
from placement.selectors.stock import family_list, pool_list
from placement.selectors.telemetry import telemetry_history, telemetry_of
from placement.selectors.timeline import (
    Timeline,
    allocation_timeline,
    event_actor,
    event_facts,
    event_reason,
)

__all__ = [
    "Block",
    "Differing",
    "Held",
    "HeldPart",
    "Holdings",
    "Offer",
    "SkuPhases",
    "SlotLinks",
    "Timeline",
    "Took",
    "allocation_explain",
    "allocation_list",
    "allocation_phase",
    "allocation_states",
    "allocation_timeline",
    "blocks_on",
    "capability_list",
    "classes_of",
    "deliverable_milli",
    "device_classes",
    "differences_of",
    "drift_list",
    "drift_of_node",
    "drift_standing",
    "event_actor",
    "event_facts",
    "event_reason",
    "evidence_list",
    "family_list",
    "free_milli",
    "health_of",
    "held_by_pool",
    "held_list",
    "held_parts",
    "holdings_of",
    "identity_of",
    "image_list",
    "leases_of_tenant",
    "leases_of_tier",
    "links_of",
    "node_list",
    "node_named",
    "node_picture",
    "node_states",
    "offer_list",
    "outcome_detail",
    "override_of",
    "phases_by_sku",
    "pool_list",
    "posture_of",
    "postures_of",
    "price_of",
    "proof_list",
    "reasons_standing",
    "request_explain",
    "request_list",
    "residue_left",
    "residue_of",
    "slot_blocks",
    "slot_list",
    "task_list",
    "telemetry_history",
    "telemetry_of",
    "unknown_machines",
    "xid_list",
    "xid_words",
]
