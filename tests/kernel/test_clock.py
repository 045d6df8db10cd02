"""Does a test say the time, and the database otherwise?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from gpuaas.kernel import clock, ids


def test_a_fake_clock_says_the_time_everywhere_and_moves_when_told() -> None:
    before = clock.now()
    with clock.use(clock.FakeClock(datetime(2030, 1, 1, tzinfo=UTC))) as fake:
        assert isinstance(fake, clock.FakeClock)
        assert clock.now() == clock.db_now() == clock.stand_in() == datetime(2030, 1, 1, tzinfo=UTC)
        start = clock.monotonic()
        fake.advance(90)
        assert clock.db_now() == datetime(2030, 1, 1, 0, 1, 30, tzinfo=UTC)
        assert clock.monotonic() - start == 90
        assert ids.new_id().int >> 80 >= int(clock.now().timestamp() * 1000)
    assert clock.stand_in() is None
    assert before <= clock.now() < before + timedelta(minutes=1)


@pytest.mark.django_db
def test_the_databases_clock_goes_on_inside_a_transaction() -> None:
    with transaction.atomic():
        first = clock.db_now()
        second = clock.db_now()
    assert first < second
    assert first.utcoffset() == timedelta(0)
