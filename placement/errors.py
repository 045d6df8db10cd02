"""What can go wrong with inventory, claims and the work on hosts?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason
from placement.constraint_errors import FREE_SLOTS as FREE_SLOTS
from placement.control_key_errors import ControlKeysUnusable as ControlKeysUnusable
from placement.defrag_errors import DefragOff as DefragOff
from placement.drift_errors import DRIFT as DRIFT


class SkuUnavailable(ProductError):
    """Authorised, but no node has a fitting set of slots now. Nothing was written but why."""

    code = "sku_unavailable"
    status = 409
    title = "No capacity for this now"
    unblock = "Ask for fewer slots, choose another SKU, or queue ({wait})."
    retryable = True


class ForbiddenByTopology(ProductError):
    """Capacity exists, but its wiring or its neighbours are not as the terms promise."""

    code = "forbidden_by_topology"
    status = 409
    title = "There is capacity, but not with the isolation or wiring that this needs"
    unblock = "Ask for fewer slots, choose an SKU without such terms, or queue ({wait})."
    retryable = True


class NeverFits(ProductError):
    """No approved node could hold this even when empty."""

    code = "never_fits"
    status = 409
    title = "No approved node is large enough for this"
    unblock = "Ask for a size within the largest that the offer shows."


class PoolDedicated(ProductError):
    """The pool is for named tenants, and this is none of them."""

    code = "pool_dedicated"
    status = 403
    title = "The pool is for other tenants"
    unblock = "Choose an SKU of another pool, or ask the operator to be let into this one."


class NodeStateRefused(ProductError):
    """The node is not in a state in which this can be done."""

    code = "node_state_refused"
    status = 409
    title = "The node's state does not allow this"
    unblock = "Look at the node: its page says what has to happen first."


class DrainNotYours(ProductError):
    """Automation would end a drain that somebody else has set."""

    code = "drain_not_yours"
    status = 409
    title = "This drain was set by somebody else"
    unblock = "Whoever set it ends it; an operator may end any: {undrain}."


class NothingToApprove(ProductError):
    """Approval was asked for a node that has no candidate slots."""

    code = "nothing_to_approve"
    status = 409
    title = "The node has no candidate slots to approve"
    unblock = "Run a discovery first: {discover}."


class SlotInUse(ProductError):
    """A slot is cut otherwise only while nobody holds anything of it."""

    code = "slot_in_use"
    status = 409
    title = "Something live is on the slot"
    unblock = "Drain the slot, wait until its leases have ended, then cut it."


class StockInUse(ProductError):
    """A pool, a kind of hosts or a SKU ends when nothing needs it; the counts say what does."""

    code = "stock_in_use"
    status = 409
    title = "Something uses it"
    unblock = (
        "End what uses it first: {uses}. What has only a past is retired, not removed; what is "
        "sold is retired before it is removed."
    )


class PartUnsupported(ProductError):
    """The host's agent does not say that it can make such a part: nothing is assumed."""

    code = "part_unsupported"
    status = 409
    title = "The host cannot make such parts of a GPU"
    unblock = "Choose a host whose agent reports the capability; its page lists what it can."


class GpuUnknown(ProductError):
    """Model or memory of the GPU are not discovered, or in no table: no geometry is guessed."""

    code = "gpu_unknown"
    status = 409
    title = "The GPU is not known well enough to be cut"
    unblock = "Run a discovery; a board that is not in the tables is leased whole."


class DeviceInTwoSlots(ProductError):
    """Two slots name one physical device: sold twice, one of the two tenants could not start."""

    code = "device_in_two_slots"
    status = 409
    title = "One device would belong to two slots"
    unblock = (
        "Look at the wiring of the nodes that are named. Retire the one that has the device no "
        "longer ({retire}), or mend the host and run a discovery again."
    )


class JoinTokenInvalid(ProductError):
    """The join token is unknown, expired, of a retired node, or was used by another key."""

    code = "join_token_invalid"
    status = 403
    title = "The join token is not valid"
    unblock = "Create a new one: {join_token}."


class CredentialInvalid(ProductError):
    """The node's credential is unknown, expired or revoked, or the signature is wrong."""

    code = "credential_invalid"
    status = 401
    title = "The node's credential is not valid"
    unblock = "Join the node again with a new token."


class ClockSkew(ProductError):
    """The message was signed at a time outside the window."""

    code = "clock_skew"
    status = 401
    title = "The message's time is outside the window"
    unblock = "Use the server's time from this answer."
    retryable = True


class ReplayedMessage(ProductError):
    """The sequence number is not above the last one accepted."""

    code = "replayed_message"
    status = 409
    title = "This message, or a later one, has been accepted already"
    unblock = "Send with a sequence above last_sequence."
    retryable = True


class AgentVersionRefused(ProductError):
    """The agent is more than one minor version away from the control plane."""

    code = "agent_version_refused"
    status = 426
    title = "This version of the agent gets no work"
    unblock = "Install an agent of the control plane's version, or of one minor version beside it."


class LeaseLost(ProductError):
    """The task's lease has moved on; the result was kept as an observation only."""

    code = "lease_lost"
    status = 409
    title = "The lease of this task is lost"
    unblock = "Nothing: drop the task and ask for new ones."


class WireRefused(ProductError):
    """The agent's message does not follow the protocol."""

    code = "message_invalid"
    status = 400
    title = "The message does not follow the protocol"
    unblock = "Update the agent to a version that speaks this protocol."


class ObservedStale(ProductError):
    """An older report than the last one kept."""

    code = "observed_stale"
    status = 409
    title = "A newer report of this boot is known"
    unblock = "Send the next report with a higher sequence."


class NoTermsToRemove(ProductError):
    """Terms of fitness were to be removed where none are set."""

    code = "no_terms_to_remove"
    status = 409
    title = "No terms of fitness are set here"
    unblock = "Nothing is to be done: the terms of any, or the product's, hold already."


class ReasonMissing(ProductError):
    """An action that is recorded with its reason was sent without one."""

    code = "reason_missing"
    status = 400
    title = "This action needs a reason"
    unblock = "Say why, in words that help whoever reads the audit log."


class DifferenceNotAcceptable(ProductError):
    """A difference between a host and what was approved cannot be accepted as it is."""

    code = "difference_not_acceptable"
    status = 409
    title = "This difference cannot be accepted now"
    unblock = "End what holds the slot, or repair the host; then discover again and look anew."


class WindowOverlaps(ProductError):
    """A node has another window of maintenance in this time."""

    code = "window_overlaps"
    status = 409
    title = "Another window of maintenance of the node is in this time"
    unblock = "Choose another time, or cancel the other window first."


class CardInUse(ProductError):
    """A card was said to be replaced while a claim holds its slot."""

    code = "card_in_use"
    status = 409
    title = "The slot of this card is held"
    unblock = "Release what holds the slot; a cleanup that is blocked has to be resolved first."


class CardNotSeen(ProductError):
    """A replacement was approved before a discovery found another card in the place."""

    code = "card_not_seen"
    status = 409
    title = "No other card was discovered in its place yet"
    unblock = "Run a discovery: {discover}. A card elsewhere is approved as new."


class NotMovable(ProductError):
    """Work was to be moved off a node that still takes work."""

    code = "not_movable"
    status = 409
    title = "The node still takes new work: it would be chosen again"
    unblock = "Drain the node first: {drain}."


class NotBlocked(ProductError):
    """Only a blocked cleanup can be retried or overridden."""

    code = "not_blocked"
    status = 409
    title = "The cleanup of this allocation is not blocked"
    unblock = "Look at the allocation's timeline for what is going on."


class HeldWithItsNode(ProductError):
    """The slot is held by a claim of the whole node, which ends as a whole."""

    code = "held_with_its_node"
    status = 409
    title = "The slot is held together with its whole node"
    unblock = "Override the allocation: {override}."


class OverrideIncomplete(ProductError):
    """An override of an allocation was approved that was asked for some of its slots only."""

    code = "override_incomplete"
    status = 409
    title = "Not every blocked slot of this allocation is named in the override"
    unblock = "Ask for an override of the allocation, or approve the slots one by one."


class NotTheAsker(ProductError):
    """Somebody else asked for the override: who asked withdraws, others refuse."""

    code = "not_the_asker"
    status = 409
    title = "Another operator asked for this override"
    unblock = "Refuse it instead, with your reason, or let the one who asked withdraw it."


class SecondPersonNeeded(ProductError):
    """The one who asked for an override may not approve it."""

    code = "second_person_needed"
    status = 403
    title = "Another operator has to approve the override"
    unblock = "Ask a colleague to approve it: {approve_override}."


class EvidenceNotEnough(ProductError):
    """A host was to be promoted for a shape that its evidence does not carry."""

    code = "evidence_not_enough"
    status = 409
    title = "The evidence does not carry this capability"
    unblock = (
        "Mend what the named checks say, then discover again ({discover}), or hand in what is "
        "missing ({evidence_give})."
    )


NODE_SILENT = reason(
    "node_silent",
    "The node has not reported for longer than its period",
    "Check the host and its agent; claims are kept, and nothing new is placed there.",
)
CLEANUP_BLOCKED = reason(
    "cleanup_blocked",
    "The proof of cleanup is not complete",
    "Repair the host and retry the cleanup; the step that is missing is named.",
)
PROVISION_FAILED = reason(
    "provision_failed",
    "The host could not provision the allocation",
    "Ask again; the capacity is being cleaned and proven.",
)
NODE_DRAINING = reason(
    "node_draining",
    "The node takes no new work",
    "Wait for the drain to end, or use other nodes.",
)
BREAKER_HELD = reason(
    "breaker_held",
    "Automation has acted upon as many nodes of the pool as it may for now",
    "Look at what it did there; then let the held action go on, or reject it, with a reason.",
)
TASK_OVERDUE = reason(
    "task_overdue",
    "The host did not finish the task in time",
    "Look at the node; the task is tried again while attempts are left.",
)
DURATION_OVER = reason(
    "duration_over",
    "The time that was asked for is over",
    "Lease again; leave {duration} out for a lease without an end.",
)
