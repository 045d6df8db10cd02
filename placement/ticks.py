"""What does placement do by itself, now and then?"""

from __future__ import annotations

from gpuaas.kernel import ticks
from placement.services.breaker import held_sweep
from placement.services.burn_in import burn_in_sweep
from placement.services.burn_in_stop import burn_in_stop_sweep
from placement.services.differences import boots_sweep, fabrics_sweep
from placement.services.drift import drift_sweep
from placement.services.durations import durations_sweep
from placement.services.endings import deletions_sweep, excesses_sweep, suspensions_sweep
from placement.services.evidence import readiness_sweep
from placement.services.health import health_sweep
from placement.services.maintenance import maintenance_sweep
from placement.services.mends import parts_sweep
from placement.services.observed import silence_sweep
from placement.services.projections import projections_refresh
from placement.services.queue import cycle_sweep
from placement.services.spending import spend_sweep
from placement.services.statistics import statistics_mend
from placement.services.tasks import leases_sweep

ticks.register("placement.cycle", 2.0, cycle_sweep)
ticks.register("placement.leases", 5.0, leases_sweep)
ticks.register("placement.burn_ins", 10.0, burn_in_sweep)
ticks.register("placement.burn_in_stops", 10.0, burn_in_stop_sweep)
ticks.register("placement.silence", 5.0, silence_sweep)
ticks.register("placement.projections", 5.0, projections_refresh)
ticks.register("placement.deletions", 5.0, deletions_sweep)
ticks.register("placement.suspensions", 10.0, suspensions_sweep)
ticks.register("placement.excesses", 10.0, excesses_sweep)
ticks.register("placement.spending", 60.0, spend_sweep)
ticks.register("placement.boots", 15.0, boots_sweep)
ticks.register("placement.fabrics", 15.0, fabrics_sweep)
ticks.register("placement.held", 60.0, held_sweep)
ticks.register("placement.drift", 15.0, drift_sweep)
ticks.register("placement.durations", 15.0, durations_sweep)
ticks.register("placement.maintenance", 10.0, maintenance_sweep)
ticks.register("placement.readiness", 10.0, readiness_sweep)
ticks.register("placement.health", 10.0, health_sweep)
ticks.register("placement.parts", 30.0, parts_sweep)
ticks.register("placement.statistics", 10.0, statistics_mend)
