"""Does the stepper find what two acts do to each other, and put everything back?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import transaction

from gpuaas.kernel.models import RetentionRule
from tests.stepping import Act, Stepper, Still, superuser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def table(services_folder: Path) -> Iterator[tuple[Stepper, Still]]:
    for name in ("one", "other"):
        RetentionRule.objects.create(name=name, days=0)
    with superuser(services_folder) as own, Stepper(own) as stepper:
        still = Still(own, "still")
        still.keep()
        yield stepper, still
        still.drop()


def days() -> dict[str, int]:
    return dict(RetentionRule.objects.values_list("name", "days"))


def in_order(*names: str) -> Act:
    """Both rows in one transaction: two statements and a commit."""

    def act() -> None:
        with transaction.atomic():
            for name in names:
                RetentionRule.objects.filter(name=name).update(days=len(names))

    return act


def read_and_write() -> None:
    """One more, as it was read: a statement and another, nothing locked."""
    row = RetentionRule.objects.get(name="one")
    RetentionRule.objects.filter(name="one").update(days=row.days + 1)


def test_a_deadlock_is_found_at_the_one_point_where_it_is(table: tuple[Stepper, Still]) -> None:
    stepper, still = table
    acts = (in_order("one", "other"), in_order("other", "one"))
    found = {}
    for k in (1, 2, 3):
        played = stepper.play(acts, [(0, k), (1, None)])
        found[k] = ([code.partition(":")[0] for code in played.codes], played.waited > 0)
        still.bring_back()
    assert sorted(found[1][0]) == ["", "OperationalError"]
    assert found[2] == (["", ""], True)
    assert found[3] == (["", ""], False)


def test_a_write_that_is_lost_is_lost_between_reading_and_writing_only(
    table: tuple[Stepper, Still],
) -> None:
    stepper, still = table
    came = {}
    for k in (1, 2):
        played = stepper.play((read_and_write, read_and_write), [(0, k), (1, None)])
        assert played.steps == [2, 2]
        came[k] = days()["one"]
        still.bring_back()
        assert days() == {"one": 0, "other": 0}
    assert came == {1: 1, 2: 2}


def test_what_is_otherwise_is_told_without_times_and_new_names(
    table: tuple[Stepper, Still],
) -> None:
    _, still = table
    assert still.told() == ()
    told = []
    for _ in range(2):
        RetentionRule.objects.create(name="new", days=7)
        RetentionRule.objects.filter(name="one").update(days=3)
        told.append(still.told())
        still.bring_back()
    assert told[0] == told[1]
    assert [line[:1] for line in told[0]] == ["+", "+", "-"]
