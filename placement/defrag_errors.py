"""What can be wrong with moves that make room?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError


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
