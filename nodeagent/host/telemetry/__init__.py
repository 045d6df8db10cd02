"""What does this host measure of itself, and who may read it here?"""

from __future__ import annotations

from nodeagent.host.telemetry.endpoint import MetricsEndpoint
from nodeagent.host.telemetry.sampler import HostTelemetry

__all__ = ["HostTelemetry", "MetricsEndpoint"]
