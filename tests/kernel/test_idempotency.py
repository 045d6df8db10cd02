"""Has the same key one effect, and does it tell its outcome?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import connection, connections

from gpuaas.kernel import clock, errors, events, idempotency
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.idempotency import IdempotencyKeyInUse, IdempotencyKeyReused, guard
from gpuaas.kernel.models import Event, IdempotencyKey
from gpuaas.kernel.scope import tenant_scope
from tests.kernel.factories import tenant

PRINT = idempotency.fingerprint_of("POST", "/things", b"{}")


def effect() -> None:
    events.record(kind="kernel.test.effect", actor=SYSTEM)


def effects() -> int:
    return Event.objects.filter(kind="kernel.test.effect").count()


def use_key(key: str = "k") -> tuple[str, bytes]:
    with guard("user:1", key, PRINT) as use:
        if use.replay is not None:
            return "replay", use.replay.body
        effect()
        use.store(202, {"Location": "/x"}, b"answer")
        return "done", b"answer"


def fail_with_key() -> None:
    with guard("user:1", "k", PRINT):
        effect()
        raise errors.ServiceUnavailable


@pytest.mark.django_db
def test_a_repeated_key_gets_the_stored_answer_and_no_second_effect() -> None:
    assert use_key() == ("done", b"answer")
    assert use_key() == ("replay", b"answer")
    with guard("user:1", "k", PRINT) as use:
        assert use.replay == idempotency.Stored(202, {"Location": "/x"}, b"answer")
    assert effects() == 1


@pytest.mark.django_db
def test_a_key_with_another_body_is_refused_and_another_principal_is_not() -> None:
    use_key()
    with pytest.raises(IdempotencyKeyReused), guard("user:1", "k", "f" * 64):
        effect()
    with guard("user:2", "k", "f" * 64) as use:
        assert use.replay is None
    assert effects() == 1


@pytest.mark.django_db
def test_a_failed_request_leaves_neither_key_nor_effect() -> None:
    with pytest.raises(errors.ServiceUnavailable):
        fail_with_key()
    with guard("user:1", "k", PRINT) as use:
        use.store(503, {}, b"sorry")
    assert (effects(), IdempotencyKey.objects.count()) == (0, 0)
    assert use_key() == ("done", b"answer")


@pytest.mark.django_db
def test_a_key_works_inside_a_tenants_scope_and_keeps_the_scope() -> None:
    mine = tenant("mine")
    with tenant_scope(mine.pk), guard("user:1", "k", PRINT) as use:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_user, current_setting('lock_timeout')")
            assert cursor.fetchone() == ("gpuaas_app", "5s")
        use.store(200, {}, b"")
    assert IdempotencyKey.objects.get().status == 200


@pytest.mark.django_db
def test_an_expired_key_is_a_fresh_one_and_is_swept() -> None:
    with clock.use(clock.FakeClock(datetime(2030, 1, 1, tzinfo=UTC))) as fake:
        assert isinstance(fake, clock.FakeClock)
        use_key("old")
        use_key("older")
        fake.advance(idempotency.KEPT_S)
        assert use_key("old") == ("done", b"answer")
        assert idempotency.sweep() == 1
        assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["old"]


@pytest.mark.django_db(transaction=True)
def test_many_twins_at_once_have_one_effect_and_one_answer() -> None:
    ready = threading.Barrier(8)

    def twin(_: int) -> tuple[str, bytes]:
        try:
            ready.wait(10)
            return use_key()
        finally:
            connections.close_all()

    for round_ in range(5):
        IdempotencyKey.objects.all().delete()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(twin, range(8)))
        assert sorted(kind for kind, _ in answers) == ["done"] + ["replay"] * 7
        assert {body for _, body in answers} == {b"answer"}
        assert effects() == round_ + 1


@pytest.mark.django_db(transaction=True)
def test_a_twin_of_a_slow_request_is_told_that_it_is_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idempotency, "TWIN_WAIT_S", 0.2)
    inside, leave = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with guard("user:1", "k", PRINT) as use:
                inside.set()
                leave.wait(20)
                effect()
                use.store(200, {}, b"slow")
        finally:
            connections.close_all()

    first = threading.Thread(target=slow)
    first.start()
    assert inside.wait(10)
    with pytest.raises(IdempotencyKeyInUse), guard("user:1", "k", PRINT):
        effect()
    leave.set()
    first.join()
    assert use_key() == ("replay", b"slow")
    assert effects() == 1
