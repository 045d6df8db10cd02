"""Is a creation that carries its key as safe to repeat as one that writes it first?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models import F

from admission.models import AdmissionRequest
from gpuaas.kernel import audits, clock, idempotency
from gpuaas.kernel.idempotency import Carried, IdempotencyKeyInUse, KeyUsedError
from gpuaas.kernel.models import Event, IdempotencyKey
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Node
from placement.services import allocations, engine, requests
from placement.services.bundle import Item
from placement.services.projections import projections_refresh
from placement.snapshots import Ask, look
from tenants.services.caps import caps_set
from tests.api.client import Caller, caller_of, order_body
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    a_host()
    return a_tenant("acme")


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


@pytest.fixture
def path(world: TenantWorld) -> str:
    return f"/projects/{world.project.pk}/allocations"


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom ``allocation_request`` was asked for."""
    asked: list[str] = []
    real: Callable[..., Any] = allocations.allocation_request

    def spy(**how: Any) -> Any:
        asked.append(how["order"].name)
        return real(**how)

    monkeypatch.setattr(allocations, "allocation_request", spy)
    return asked


def found() -> list[audits.Finding]:
    """What the audits have to say."""
    projections_refresh()
    return [one for audit in audits.registered().values() for one in audit()]


def an_item(world: TenantWorld, slots: int) -> Item:
    """An order of the tenant, read and decided on."""
    ask = Ask(world.tenant.pk, world.project.pk, AllocationOrder(sku="h100.slice", slots=slots))
    return requests.item_of(ask, look(ask), actor=world.actor)


def carried(key: str = "k", principal: str = "user:1") -> Carried:
    return Carried(principal, key, "f" * 64, 202, {"Location": "/x"}, '{"at":"@at@"}')


def test_the_answer_that_is_given_is_the_one_that_is_kept_and_told_later(
    acme: Caller, path: str, long_way: list[str]
) -> None:
    first = acme.post(path, order_body(name="one"), key="k1")
    assert (first.status_code, long_way) == (202, [])
    kept = IdempotencyKey.objects.get()
    assert (kept.status, bytes(kept.body or b"")) == (202, first.content)
    assert kept.headers == {
        name: first.headers[name] for name in ("Location", "Retry-After", "Content-Type")
    }
    assert (kept.expires_at - kept.created_at).total_seconds() == idempotency.KEPT_S
    assert acme.get(f"/operations/{first.json()['id']}").json() == first.json()


def test_the_answer_is_as_the_long_way_gives_it(acme: Caller, path: str) -> None:
    short = acme.post(path, order_body(name="one"))
    long = acme.post("/projects/default/allocations", order_body(name="one"))
    assert short.headers.keys() == long.headers.keys()
    assert list(short.json()) == list(long.json())
    own = {"id", "target", "created_at", "updated_at", "metadata"}
    for name in short.json().keys() - own:
        assert short.json()[name] == long.json()[name], name
    for operation in (short.json(), long.json()):
        assert operation["metadata"]["request_id"]
        assert Allocation.objects.filter(pk=operation["target"]["id"]).exists()


def test_a_repeat_is_answered_from_what_was_kept(acme: Caller, path: str) -> None:
    first = acme.post(path, order_body(name="one"), key="k1")
    again = acme.post(path, order_body(name="one"), key="k1")
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert Allocation.objects.count() == 1
    assert found() == []


def test_a_key_that_stood_for_another_order_is_refused(acme: Caller, path: str) -> None:
    acme.post(path, order_body(name="one"), key="k1")
    other = acme.post(path, order_body(name="two"), key="k1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Allocation.objects.count() == 1


def test_twins_at_once_have_one_effect_and_one_answer(acme: Caller, path: str) -> None:
    ready = threading.Barrier(6)

    def twin(key: str) -> tuple[int, bytes]:
        try:
            ready.wait(10)
            answer = Caller(acme.token).post(path, order_body(name="one", slots=1), key=key)
            return answer.status_code, answer.content
        finally:
            connections.close_all()

    for number in range(3):
        with ThreadPoolExecutor(6) as pool:
            answers = set(pool.map(twin, [f"k{number}"] * 6))
        [(status, _)] = answers
        assert status == 202
        assert Allocation.objects.count() == number + 1
        assert IdempotencyKey.objects.count() == number + 1
    assert found() == []


def test_a_twin_that_takes_long_is_told_of(
    acme: Caller, world: TenantWorld, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "TWIN_WAIT_S", 0.2)
    principal = _principal(acme, path)
    inside, leave = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with idempotency.guard(principal, "k2", "f" * 64) as use:
                inside.set()
                leave.wait(20)
                use.store(200, {}, b"slow")
        finally:
            connections.close_all()

    first = threading.Thread(target=slow)
    first.start()
    try:
        assert inside.wait(10)
        answer = acme.post(path, order_body(name="two"), key="k2")
    finally:
        leave.set()
        first.join()
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_in_use")
    assert Allocation.objects.count() == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        assert cursor.fetchone() == ("5s",)


def _principal(acme: Caller, path: str) -> str:
    """Whose keys the caller's are."""
    acme.post(path, order_body(name="one"))
    return IdempotencyKey.objects.get().principal


def test_a_refusal_goes_the_long_way_and_is_replayed(
    acme: Caller, path: str, long_way: list[str]
) -> None:
    body = order_body(name="much", slots=1, tier="gold")
    first = acme.post(path, body, key="k1")
    again = acme.post(path, body, key="k1")
    assert first.status_code == again.status_code >= 400
    assert again.content == first.content
    assert long_way == ["much"]
    assert AdmissionRequest.objects.count() == IdempotencyKey.objects.count() == 1


def test_no_room_and_a_wait_go_the_long_way(acme: Caller, path: str, long_way: list[str]) -> None:
    Node.objects.update(schedulable=False)
    no = acme.post(path, order_body(name="none"), key="k1")
    assert (no.status_code, no.json()["code"]) == (409, "sku_unavailable")
    assert acme.post(path, order_body(name="later", wait=True), key="k2").status_code == 202
    Node.objects.update(schedulable=True)
    # Somebody waits: who comes now does not pass them by the short way.
    acme.post(path, order_body(name="next", slots=1), key="k3")
    assert long_way == ["none", "later", "next"]
    assert IdempotencyKey.objects.count() == 3


def test_who_has_caps_goes_the_long_way(
    acme: Caller, world: TenantWorld, path: str, long_way: list[str]
) -> None:
    caps_set(tenant_id=world.tenant.pk, changes={"allocations": 5}, reason="few", actor=OPERATOR)
    assert acme.post(path, order_body(name="one")).status_code == 202
    assert long_way == ["one"]


def test_what_cannot_be_read_frees_its_key(acme: Caller, path: str) -> None:
    for body in (b"{", b'{"sku":1}', b'{"sku":"h100.slice","odd":1}'):
        assert acme.post(path, body, key="k1").status_code == 400
    assert acme.post(path, order_body(name="one"), key="k1").status_code == 202


def test_a_place_that_was_lost_uses_up_no_key(
    acme: Caller, path: str, long_way: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.options_for
    monkeypatch.setattr(
        engine,
        "options_for",
        lambda *args, **how: [replace(o, generation=0) for o in real(*args, **how)],
    )
    monkeypatch.setattr(engine, "LOOKS", 1)
    before = Event.objects.count()
    monkeypatch.setattr(allocations, "allocation_request", _stopped)
    assert acme.post(path, order_body(name="one"), key="k1").status_code == 500
    assert IdempotencyKey.objects.count() == Allocation.objects.count() == 0
    assert Event.objects.count() == before
    assert found() == []


def _stopped(**how: Any) -> Any:
    raise RuntimeError("this far and no further")


def test_a_commit_whose_key_was_used_writes_nothing(world: TenantWorld) -> None:
    IdempotencyKey.objects.create(
        principal="user:1", key="k", fingerprint="e" * 64, status=200,
        expires_at=clock.db_now(),
    )  # fmt: skip
    generation = Node.objects.values_list("generation", flat=True).get()
    item = an_item(world, 2)
    with pytest.raises(KeyUsedError):
        engine.place_carrying(item, carried())
    assert Node.objects.values_list("generation", flat=True).get() == generation
    assert not Allocation.objects.exists()
    placed = engine.place_carrying(item, carried("other"))
    assert placed is not None
    kept = IdempotencyKey.objects.get(key="other")
    assert bytes(kept.body or b"") == carried("other").body(placed.at)


def test_a_key_that_has_expired_is_a_fresh_one(acme: Caller, path: str) -> None:
    assert acme.post(path, order_body(name="one"), key="k1").status_code == 202
    IdempotencyKey.objects.update(expires_at=F("created_at"))
    again = acme.post(path, order_body(name="two"), key="k1")
    assert again.status_code == 202
    assert "Idempotent-Replayed" not in again.headers
    assert Allocation.objects.count() == 2


def test_a_key_is_kept_by_the_time_that_a_test_says(world: TenantWorld) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    item = an_item(world, 1)
    with clock.use(clock.FakeClock(at)):
        assert engine.place_carrying(item, carried()) is not None
    kept = IdempotencyKey.objects.get()
    assert (kept.expires_at - at).total_seconds() == idempotency.KEPT_S


def test_a_code_that_is_not_about_the_key_is_left_to_others() -> None:
    idempotency.refuse_carried("GP002")
    with pytest.raises(KeyUsedError):
        idempotency.refuse_carried(idempotency.KEY_USED)
    with pytest.raises(IdempotencyKeyInUse):
        idempotency.refuse_carried(idempotency.LOCK_NOT_AVAILABLE)
