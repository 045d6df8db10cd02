"""What removes a node or a slot from a request?  placement.domain.reasons asks it in order."""

from __future__ import annotations

from gpuaas.kernel.errors import reason

NODE_IN_SERVICE = reason(
    "node_in_service",
    "The node is in maintenance or quarantined",
    "Wait until it is restored, or use other nodes.",
)
NODE_NOT_READY = reason(
    "node_not_ready",
    "The node has not been approved yet",
    "Approve it after its discovery: {approve}.",
)
NODE_HELD = reason(
    "node_held",
    "Work is being moved away from the node to make room there",
    "Wait until the defragmentation has ended, or stop it.",
)
BURN_IN_RUNS = reason(
    "burn_in_runs",
    "The node's GPUs are being burnt in",
    "Wait until the burn-in has ended; the host says when its load is over.",
)
CAPABILITY_EVIDENCE = reason(
    "capability_evidence",
    "The node is not promoted for this shape, or its evidence does not hold now",
    "Look at the node's evidence, mend what it misses, and promote it: {promote}.",
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
    "Inspect or replace it, then lift it: {lift}.",
)
UNKNOWN_VM = reason(
    "unknown_vm",
    "A machine that nobody asked for has the slot's devices, or runs on the host",
    "End the machine by hand, or find out who started it; then it goes by itself.",
)
RECORD_DAMAGED = reason(
    "record_damaged",
    "The host cannot read what it has written down of a lease, and what of it is there is unknown",
    "Release the allocation that it was of, or mend or remove the record on the host.",
)
MACHINE_NOT_RESTARTED = reason(
    "machine_not_restarted",
    "The host has restarted, and could not start the machine of a lease again",
    "Mend what the host names and restart its helper, or release the allocation.",
)
GPU_IN_USE = reason(
    "gpu_in_use",
    "A process of the host has the GPU open, so that it can go to no machine",
    "End what the host names, or have it let go of the GPU; then it goes by itself.",
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
GPU_ERROR_UNNAMED = reason(
    "gpu_error_unnamed",
    "The driver told an error that closes a GPU, and did not say of which",
    "Look at the host's GPUs, then lift it: {lift} (its GPU is `host`). Or reboot the host.",
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
    "Ask for a shorter time ({duration}), as the refusal says, or wait for the window's end.",
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
    "whole_node_free",
    "Something on the node is taken, blocked or cut",
    "Wait for a whole node, or queue. A slot stays cut until an operator makes it whole.",
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
SPREAD = reason(
    "spread",
    "The node has room for one member of the set, and each has to be on a node of its own",
    "Ask for fewer members, leave apart out, or wait.",
)
TOGETHER_LEVEL = reason(
    "together_level",
    "The node has room, but the part of the fleet that it stands in has not for the whole set",
    "Ask for a wider level (rack, block, zone), fewer members, or wait.",
)
OTHER_REPLICAS = reason(
    "other_replicas",
    "The node has room for some of the allocations that are asked together, not for all",
    "Ask for fewer replicas, or wait.",
)
ROOM_CHANGED = reason(
    "room_changed",
    "Room on the node was taken or given back while it was looked at",
    "Ask again, or queue.",
)
KEPT_FOR_WAITING = reason(
    "kept_for_waiting",
    "What is free on the node is for requests that have waited longer",
    "Queue ({wait}), or ask for what is smaller than what waits.",
)
OTHER_FAMILY = reason(
    "other_family",
    "The node is of another family than the SKU",
    "Choose an SKU of that family.",
)
OTHER_POOL = reason(
    "other_pool",
    "The node is in another pool than the SKU is sold from",
    "Choose an SKU of that pool.",
)
NEVER_TOGETHER = reason(
    "never_together",
    "A tenant is on the node that is never placed beside this one",
    "Wait until it has left, or use nodes on which it has nothing.",
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
