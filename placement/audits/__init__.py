"""What must always be so about capacity, holds and work?  Each audit says what it found."""

from gpuaas.kernel.audits import register
from placement.audits.capacity import capacity, projections, quota
from placement.audits.claims import claims, devices, proofs
from placement.audits.parts import parts
from placement.audits.wiring import wiring
from placement.audits.work import runs, transitions

register("placement.claims", claims)
register("placement.devices", devices)
register("placement.proofs", proofs)
register("placement.parts", parts)
register("placement.wiring", wiring)
register("placement.capacity", capacity)
register("placement.quota", quota)
register("placement.projections", projections)
register("placement.runs", runs)
register("placement.transitions", transitions)
