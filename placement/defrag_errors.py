"""What can be wrong with moves that make room?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason


class DefragOff(ProductError):
    """The pool's work is not moved, or not at this hour."""

    code = "defrag_off"
    status = 409
    title = "Work of this pool is not moved now"
    unblock = "Allow it in the pool's defragmentation policy, or wait for its window."


class NoDefragPlan(ProductError):
    """No sequence of moves within the budget makes the room, or none is needed."""

    code = "defrag_no_plan"
    status = 409
    title = "There is no plan of moves to make"
    unblock = (
        "Raise the budget, ask for a smaller size, or have more workloads declared movable. If "
        "there is room already, nothing has to be moved."
    )


class DefragPlanStale(ProductError):
    """The fleet has changed since the plan was looked at."""

    code = "defrag_plan_stale"
    status = 409
    title = "The plan is not what would be done now"
    unblock = "Look at the plan again, and confirm what it says then."
    retryable = True


LEFT_OUT = {
    code: reason(code, title, unblock)
    for code, title, unblock in (
        (
            "move_part",
            "It is a part of a GPU, and moving it would free no whole slot: the slot stays cut",
            "Cut the slot as a whole again once nothing is on it ({cut}).",
        ),
        (
            "move_lease",
            "It is a lease, and leases are never moved",
            "Its tenant may give it back and lease again.",
        ),
        (
            "move_not_declared",
            "Its workload was not declared movable",
            "Its tenant may submit it with movable: true.",
        ),
        (
            "move_not_now",
            "It is not moved now: within its tier's protected run time, not running as a whole, "
            "bound to the others of its set, or about to change",
            "Look again later.",
        ),
        (
            "move_refused",
            "Its tenant would be refused a second place for it while both are held",
            "Raise the tenant's quota, or look at what its move would meet.",
        ),
    )
}
"""Why an allocation on these hosts is left out of a plan of moves."""
