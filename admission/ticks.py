"""What does admission do by itself, now and then?"""

from __future__ import annotations

from admission.services.tenancies import refused_signups_sweep
from gpuaas.kernel import ticks

ticks.register("admission.signups", 600.0, refused_signups_sweep)
