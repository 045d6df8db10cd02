"""What is each difference between what is wanted and what is seen called?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason

DRIFT = {
    kind: reason(f"drift_{kind}", title, unblock)
    for kind, title, unblock in (
        (
            "vm_missing",
            "The host proves that it has no machine of an active allocation",
            "Look at the host. If the machine is lost, end the allocation ({give_up}): its slots "
            "are then cleaned and proven.",
        ),
        (
            "vm_unknown",
            "The host has a machine that nobody asked for here",
            "Find out whose it is and remove it at the host, or accept it with a reason. The node "
            "takes nothing new meanwhile, and nothing is removed unasked.",
        ),
        (
            "vm_state",
            "The machine of an active allocation does not run",
            "The tenant may have shut it down; start it at the host, or accept it with a reason.",
        ),
        (
            "vm_elsewhere",
            "A machine is on other slots than those that it holds",
            "Look at the host: a machine with devices of another claim has to be ended by hand.",
        ),
        (
            "released_but_present",
            "The machine of an ended allocation is still there",
            "Its release is ordered again a few times; after that look at the host and ask anew.",
        ),
        (
            "address_changed",
            "A machine answers at another address than the one that its tenant was given",
            "The address that the tenant sees is brought to the report by itself.",
        ),
        (
            "boot_changed_under_claim",
            "The host booted under a claim, and its machine runs again",
            "The claim is bound to the new boot by itself once the machine is seen there.",
        ),
        (
            "device_missing",
            "The GPU of a slot is proven absent",
            "A discovery is ordered; then accept the difference or put the card back.",
        ),
        (
            "device_unknown",
            "The host has a GPU that no slot stands for",
            "A discovery is ordered; then approve the new slot, or leave it.",
        ),
        (
            "device_differs",
            "A device is otherwise than approved",
            "Repair the host, accept the difference ({accept}), or declare the card replaced.",
        ),
        (
            "device_offered",
            "A device may be approved that nothing is sold of yet",
            "Approve it ({approve}), or accept that it is not sold.",
        ),
        (
            "residue",
            "Traces of an earlier tenant are on a free slot",
            "Wipe the slot, so that the host proves it clean, or override it by two people.",
        ),
        (
            "task_stuck",
            "A task is past its time",
            "Its run is woken by itself; if that does not help, look at the host.",
        ),
        (
            "making_stopped",
            "An allocation is being made, and nothing is at work on it",
            "It is ended and cleaned by itself; the tenant may ask again.",
        ),
        (
            "release_stopped",
            "An allocation is being released, and nothing is at work on it",
            "It is handed to the platform by itself; then retry its cleanup.",
        ),
        (
            "observed_stale",
            "What the host has is unknown, since its report is old",
            "Check the host and its agent. What was known stays as it was until it reports again.",
        ),
        (
            "not_comparable",
            "What the host reported cannot be compared",
            "Look at the worker's log for this node; the other nodes go on.",
        ),
    )
}


class DriftNotAcceptable(ProductError):
    """This kind of difference is repaired or decided elsewhere, and cannot be let stand."""

    code = "drift_not_acceptable"
    status = 409
    title = "This difference cannot simply be accepted"
    unblock = "The drift page says what ends it: a repair, a decision about a slot, an override."


class DriftNotRemovable(ProductError):
    """There is nothing that could be removed by an order to the host."""

    code = "drift_not_removable"
    status = 409
    title = "Nothing can be removed by an order here"
    unblock = "Remove what was never ours at the host itself; the next report ends the difference."
