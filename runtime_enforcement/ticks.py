"""What does watching do by itself, now and then?"""

from __future__ import annotations

from gpuaas.kernel import ticks
from runtime_enforcement.services import overdue_sweep

ticks.register("enforcement.overdue", 60.0, overdue_sweep)
