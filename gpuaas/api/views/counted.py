"""What was counted and timed since the platform counts?  For Prometheus.

Two sources: totals that a tick takes from events, each once, and what processes measure on the
spot and count together. Both are as long as there are series, however much has happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from gpuaas.kernel import measuring, on_the_spot
from gpuaas.kernel.families import Family, Labels, Series, by_family


def counted() -> Iterator[Metric]:
    """Every family of counts and durations, those without a series too."""
    kept = by_family({**measuring.totals(), **on_the_spot.read()})
    for family in sorted(
        [*measuring.registered(), *on_the_spot.registered()], key=lambda one: one.name
    ):
        yield _told(family, kept.get(family.name, []))
    until = GaugeMetricFamily(
        "gpuaas_measures_until_timestamp_seconds",
        "Up to when events are in the counts and durations that are taken from them",
    )
    at = measuring.read_until()
    if at is not None:
        until.add_metric([], at.timestamp())
    yield until


def _told(family: Family, series: list[tuple[Labels, Series]]) -> Metric:
    if not family.bounds:
        counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
        for labels, one in series:
            counter.add_metric(labels, one.count)
        return counter
    histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [le(bound) for bound in (*family.bounds, float("inf"))]
    for labels, one in series:
        below = list(accumulate(one.classes))
        buckets = list(zip(bounds, below, strict=False))
        histogram.add_metric(labels, buckets, one.sum_us / 1_000_000)
    return histogram


def le(bound: float) -> str:
    """A bound as it is written in the label of that name."""
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]  # the library's own
