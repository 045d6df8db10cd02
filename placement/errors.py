"""What can go wrong with inventory, claims and the work on hosts?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason
from placement.defrag_errors import DefragOff as DefragOff
from placement.drift_errors import DRIFT as DRIFT


class SkuUnavailable(ProductError):
    """Authorised, but no node has a fitting set of slots now. Nothing was written but why."""

    code = "sku_unavailable"
    status = 409
    title = "No capacity for this now"
    unblock = "Ask for fewer slots, choose another SKU, or send wait: true to queue."
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
    unblock = "Whoever set it ends it; an operator may end any: gpuaas node undrain NAME."


class NothingToApprove(ProductError):
    """Approval was asked for a node that has no candidate slots."""

    code = "nothing_to_approve"
    status = 409
    title = "The node has no candidate slots to approve"
    unblock = "Run a discovery first: gpuaas node discover NAME."


class SlotInUse(ProductError):
    """A slot is cut otherwise only while nobody holds anything of it."""

    code = "slot_in_use"
    status = 409
    title = "Something live is on the slot"
    unblock = "Drain the slot, wait until its leases have ended, then cut it."


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
        "longer (gpuaas node retire NAME), or mend the host and run a discovery again."
    )


class JoinTokenInvalid(ProductError):
    """The join token is unknown, expired, or was used by another key."""

    code = "join_token_invalid"
    status = 403
    title = "The join token is not valid"
    unblock = "Create a new one: gpuaas node join-token NAME."


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
    unblock = "Run a discovery: gpuaas node discover NAME. A card elsewhere is approved as new."


class NotMovable(ProductError):
    """Work was to be moved off a node that still takes work."""

    code = "not_movable"
    status = 409
    title = "The node still takes new work: it would be chosen again"
    unblock = "Drain the node first: gpuaas node drain NAME."


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
    unblock = "Override the allocation: gpuaas override ask ID --reason WHY."


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
    unblock = "Ask a colleague to approve it in the console."


class EvidenceNotEnough(ProductError):
    """A host was to be promoted for a shape that its evidence does not carry."""

    code = "evidence_not_enough"
    status = 409
    title = "The evidence does not carry this capability"
    unblock = (
        "Mend what the named checks say, then discover again (gpuaas node discover NAME), or hand "
        "in what is missing (gpuaas node evidence-give NAME --check burn_in --verdict pass)."
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

# What removes a node from a request, in the account of a refusal; placement.domain.reasons asks.
NODE_IN_SERVICE = reason(
    "node_in_service",
    "The node is in maintenance or quarantined",
    "Wait until it is restored, or use other nodes.",
)
NODE_NOT_READY = reason(
    "node_not_ready",
    "The node has not been approved yet",
    "Approve it after its discovery: gpuaas node approve NAME.",
)
NODE_HELD = reason(
    "node_held",
    "Work is being moved away from the node to make room there",
    "Wait until the defragmentation has ended, or stop it.",
)
CAPABILITY_EVIDENCE = reason(
    "capability_evidence",
    "The node is not promoted for this shape, or its evidence does not hold now",
    "Look at the node's evidence, mend what it misses, and promote it: gpuaas node evidence NAME.",
)
EVIDENCE_MISSING = reason(
    "evidence_missing",
    "Nobody has said whether this check holds",
    "Discover the node again, or hand in what is missing.",
)
EVIDENCE_FAILED = reason(
    "evidence_failed",
    "A check that the shape needs has failed",
    "Mend the host as the check says, then discover it again.",
)
EVIDENCE_EXPIRED = reason(
    "evidence_expired",
    "A check that the shape needs was last seen too long ago",
    "Discover the node again, or repeat the burn-in and hand it in.",
)
GPU_NEEDS_RESET = reason(
    "gpu_needs_reset",
    "The GPU takes no new work until it was reset",
    "Release what is on it: its cleanup resets it. Or reboot the host.",
)
GPU_NEEDS_REPAIR = reason(
    "gpu_needs_repair",
    "The GPU takes no new work until somebody has looked at it",
    "Inspect or replace it, then lift it: gpuaas node lift-health NAME --gpu UUID.",
)
GPU_WATCHED = reason(
    "gpu_watched",
    "The GPU has shown errors that keep no work away",
    "Nothing: it is over after a clean day, or when it is released.",
)
GPU_TENANT_FAULT = reason(
    "gpu_tenant_fault",
    "A program of the tenant's made the GPU tell an error",
    "Mend the program; the GPU is well.",
)
NODE_NEEDS_REBOOT = reason(
    "node_needs_reboot",
    "One of the node's GPUs cannot be relied on until the host has rebooted",
    "Drain the node and reboot it; if the GPU stays away, replace it.",
)
DEVICE_HEALTH = reason(
    "device_health",
    "The node reports a condition that keeps new work away",
    "Look at the node's conditions and repair what they name.",
)
INTENDED_USE = reason(
    "intended_use",
    "The node is meant for another shape",
    "Choose an SKU of the other shape, or change what the node is meant for.",
)
SIZE_OF_NODE = reason(
    "size_of_node", "The node has fewer slots than are asked for", "Ask for fewer slots."
)
LOCALITY = reason(
    "locality",
    "The node is not where the request has to run",
    "Name other zones, or bring the data to more places.",
)
MAINTENANCE_WINDOW = reason(
    "maintenance_window",
    "Maintenance of the node begins before this would end",
    "Ask for a shorter time (max_duration_s), as the refusal says, or wait for the window's end.",
)
DURATION_OVER = reason(
    "duration_over",
    "The time that was asked for is over",
    "Lease again; leave max_duration_s out for a lease without an end.",
)
DRIVER_VERSION = reason(
    "driver_version",
    "The node's driver is not of a version that the terms allow, or unknown",
    "Bring the driver to the version, or choose another SKU.",
)
RUNTIME_VERSION = reason(
    "runtime_version",
    "The node's runtime is older than the terms allow, or unknown",
    "Bring the runtime to the version, or choose another SKU.",
)
TENANT_AFFINITY = reason(
    "tenant_affinity",
    "What the tenant holds there already rules the node out",
    "Release what is in the way, or choose an SKU whose terms do not bind to it.",
)
FREE_SLOTS = reason(
    "free_slots", "The node has too few free slots now", "Ask for fewer, wait, or queue."
)
WHOLE_NODE_FREE = reason(
    "whole_node_free", "Something on the node is taken", "Wait for a whole node, or queue."
)
EXCLUSIVE_NIC = reason(
    "exclusive_nic",
    "Too few of the free slots have a NIC of their own",
    "Ask for fewer, or choose an SKU that shares NICs.",
)
WIRING_ISOLATION = reason(
    "wiring_isolation",
    "A switch, NVLink domain or NIC of the free slots is shared with another tenant",
    "Ask for fewer slots, wait, or choose an SKU without wiring of its own.",
)
NODE_ISOLATION = reason(
    "node_isolation",
    "Another tenant is on the node",
    "Wait for an empty node, or choose an SKU without a host of its own.",
)
OTHER_TENANTS_ISOLATION = reason(
    "other_tenants_isolation",
    "Another tenant was promised that nothing beside its slots is shared",
    "Ask for fewer slots, wait, or queue.",
)
CUT_OTHERWISE = reason(
    "cut_otherwise",
    "The slot is cut for parts of another kind",
    "Cut slots for this kind, or choose an SKU of the other.",
)
NO_SUCH_PROFILE = reason(
    "no_such_profile",
    "The GPU offers no MIG profile of this name",
    "Choose an SKU of its profiles.",
)
MEMORY_OF_GPU = reason(
    "memory_of_gpu", "More memory is asked than the GPU has", "Choose an SKU with less memory."
)
SLOT_CLOSED = reason(
    "slot_closed",
    "The slot or its node takes no new work",
    "Undrain it, clean it, or wait until its host is well.",
)
SHARED_BY_ANOTHER_TENANT = reason(
    "shared_by_another_tenant",
    "Another tenant's shares are on the GPU, and a share isolates from nobody",
    "Wait until a GPU is empty, or choose a MIG profile.",
)
MEMORY_HEADROOM = reason(
    "memory_headroom",
    "The shares together would ask more memory than the GPU has",
    "Wait, or choose an SKU with less memory.",
)
NO_PLACE_FOR_PROFILE = reason(
    "no_place_for_profile",
    "No start of the profile is free on the GPU",
    "Wait, or choose a smaller profile.",
)
FREE_MILLI = reason(
    "free_milli", "Too little of the GPU is free now", "Wait, or choose a smaller share."
)
