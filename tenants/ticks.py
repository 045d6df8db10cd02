"""What changes with time alone in what tenants may hold?"""

from __future__ import annotations

from gpuaas.kernel import ticks
from tenants.services.bursts import bursts_turn
from tenants.services.envelopes import envelopes_apply_due
from tenants.services.quota import drains_announce

ticks.register("tenants.envelopes", 2.0, envelopes_apply_due)
ticks.register("tenants.bursts", 2.0, bursts_turn)
ticks.register("tenants.drains", 5.0, drains_announce)
