"""Has everything that is late been said to be late?"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, register
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import platform_scope
from runtime_enforcement.services import KIND, overdue_list

SWEEP_S = 180
"""Three periods of the sweep that says it."""


def overdue() -> list[Finding]:
    """Things that are late for longer than the sweep needs, and of which nothing was said."""
    with platform_scope():
        return [
            Finding(
                "overdue_not_said",
                f"{late.noun} {row.pk}",
                f"it is {late.state} since {late.since:%Y-%m-%d %H:%M}, {late.late_s} s too long",
                {"limit_s": late.limit_s},
            )
            for row, late in overdue_list()
            if late.late_s > SWEEP_S
            and not Event.objects.filter(kind=KIND, subject_id=row.pk, at__gte=late.since).exists()
        ]


register("enforcement.overdue", overdue)
