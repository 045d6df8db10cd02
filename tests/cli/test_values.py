"""Is each value shown exactly, with its unit, and unknown as unknown?"""

from datetime import UTC, datetime

import pytest

from gpuaas.cli import values
from gpuaas.cli.problems import UsageError


@pytest.mark.parametrize(
    ("micro", "shown"),
    [
        (2_490_000, "2.49"),
        (1, "0.000001"),
        (0, "0.00"),
        (1_000_000, "1.00"),
        (-1_500_000, "-1.50"),
        (10**15 + 1, "1000000000.000001"),
        (None, "-"),
    ],
)
def test_money_is_exact(micro: int | None, shown: str) -> None:
    assert values.money(micro) == shown


@pytest.mark.parametrize(
    ("milli", "shown"), [(2000, "2"), (500, "0.5"), (1, "0.001"), (-250, "-0.25"), (0, "0")]
)
def test_units_are_exact(milli: int, shown: str) -> None:
    assert values.units(milli) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (80 * 2**30, "80.0 GiB"),
        (2**51, "2048.0 TiB"),
    ],
)
def test_an_unknown_size_is_not_zero(count: int | None, shown: str) -> None:
    assert values.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.4, "0.4s"),
        (59, "59s"),
        (95, "1m35s"),
        (3600, "1h"),
        (90061, "1d1h"),
        (-5, "0s"),
    ],
)
def test_a_span_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert values.span(seconds) == shown


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("30s", 30), ("1h30m", 5400), ("250ms", 0.25), ("1.5m", 90)],
)
def test_a_duration_is_read(written: str, seconds: float) -> None:
    assert values.duration(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "5 m", "m5", "-3s", "1h30", "inf", "nan"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(UsageError):
        values.duration(written)


def test_facts_carry_their_units_and_keep_zero() -> None:
    found = {"free_milli": 0, "limit_milli": 8000, "never": False, "why": None, "places": 0}
    assert values.facts(found) == "free 0, limit 8, places 0"


def test_an_age_counts_from_the_given_moment() -> None:
    now = datetime(2026, 11, 27, 12, 0, 30, tzinfo=UTC)
    assert values.age("2026-11-27T12:00:00Z", now) == "30s"
    assert values.age("2026-11-27T13:00:00+01:00", now) == "30s"
    assert values.age(None, now) == "-"
    assert values.age("yesterday", now) == "-"


def test_a_named_object_is_shown_by_its_name() -> None:
    assert values.text({"id": "x", "name": "acme"}) == "acme"
    assert values.text([{"name": "a"}, True, None]) == "a,yes,-"
