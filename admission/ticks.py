"""What does admission do by itself, now and then?"""

from __future__ import annotations

from admission.services.tenancies import refused_signups_sweep
from admission.totals import decisions_count_sweep
from gpuaas.kernel import ticks

ticks.register("admission.signups", 600.0, refused_signups_sweep)
ticks.register("admission.totals", 60.0, decisions_count_sweep)
