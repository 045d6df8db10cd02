"""Do durations fall into the right classes, and does nothing get lost when they are added?"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.kernel.families import (
    PHASE,
    QUICK,
    STAY,
    WORK,
    Family,
    Observation,
    Series,
    added,
    class_of,
    folded,
    quantile,
)

TOOK = Family("gpuaas_test_seconds", "A test", ("kind",), (1.0, 10.0))
SEEN = Family("gpuaas_test", "A test", ("kind",))

LOADED = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
seconds = st.floats(min_value=-1.0, max_value=1e7, allow_nan=False)


@pytest.mark.parametrize("bounds", [QUICK, WORK, STAY, PHASE])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, 0), (1.0, 0), (1.001, 1), (10.0, 1), (11, 2)]
)
def test_a_bound_belongs_to_its_own_class(value: float, expected: int) -> None:
    assert class_of(TOOK.bounds, value) == expected


def test_a_counter_has_no_classes_and_no_time() -> None:
    found = folded(
        [Observation(SEEN, ("a",)), Observation(SEEN, ("a",)), Observation(SEEN, ("b",))]
    )
    assert found[SEEN.name, ("a",)] == Series(2, 0, [])
    assert found[SEEN.name, ("b",)] == Series(1, 0, [])


def test_two_clocks_that_differ_by_a_little_make_no_negative_time() -> None:
    found = folded([Observation(TOOK, ("a",), -0.004)])
    assert found[TOOK.name, ("a",)] == Series(1, 0, [1, 0, 0])


@LOADED
@given(st.lists(seconds, max_size=30), st.lists(seconds, max_size=30))
def test_parts_that_are_added_are_the_whole(one: list[float], two: list[float]) -> None:
    def series(values: list[float]) -> Series:
        found = folded(Observation(TOOK, ("a",), value) for value in values)
        return added(found.values())

    whole, parts = series([*one, *two]), added([series(one), series(two)])
    assert (whole.count, whole.sum_us) == (parts.count, parts.sum_us)
    assert whole.classes == parts.classes
    assert sum(whole.classes) == whole.count == len(one) + len(two)


def test_nothing_measured_has_no_quantile() -> None:
    assert quantile(TOOK.bounds, [0, 0, 0], 0.5) is None
    assert quantile(TOOK.bounds, [], 0.5) is None


def test_a_quantile_lies_between_its_bounds_and_is_never_beyond_the_last() -> None:
    assert quantile(TOOK.bounds, [10, 0, 0], 0.5) == pytest.approx(0.5)
    assert quantile(TOOK.bounds, [0, 10, 0], 0.5) == pytest.approx(5.5)
    assert quantile(TOOK.bounds, [5, 5, 0], 0.95) == pytest.approx(9.1)
    assert quantile(TOOK.bounds, [0, 0, 10], 0.5) == 10.0


@LOADED
@given(st.lists(st.floats(min_value=0.0, max_value=10.0), min_size=1, max_size=50))
def test_quantiles_rise_with_the_share(values: list[float]) -> None:
    classes = added(folded(Observation(TOOK, ("a",), v) for v in values).values()).classes
    told = [quantile(TOOK.bounds, classes, share) or 0.0 for share in (0.1, 0.5, 0.95, 1.0)]
    assert told == sorted(told)
