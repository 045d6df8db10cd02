"""What does admission tell in numbers?"""

from __future__ import annotations

from typing import Final

from gpuaas.kernel import on_the_spot
from gpuaas.kernel.families import QUICK, Family

DURATION: Final = on_the_spot.family(
    Family(
        "gpuaas_admission_duration_seconds",
        "How long it took to decide on a request that was just made, with its place where it "
        "got one, by action and class of outcome",
        ("workflow", "outcome"),
        QUICK,
    )
)
