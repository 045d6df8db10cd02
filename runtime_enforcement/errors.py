"""What does watching say?"""

from __future__ import annotations

from gpuaas.kernel.errors import reason

STATE_OVERDUE = reason(
    "state_overdue",
    "It has been in this state for longer than expected",
    "Look at its timeline and its host; the operations page says what it waits for.",
)
