"""Does one tenant whose row breaks keep its own order, and stop nobody else's?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from gpuaas.kernel import clock, sweeping
from gpuaas.kernel.errors import TransitionRefused
from gpuaas.kernel.models import Event, SweepFault
from placement.models import Allocation
from placement.services import spending
from runtime_enforcement import services as watching
from tenants.models import BurstRule, EnvelopeVersion, QuotaCounter, TenantCaps
from tenants.services import bursts, cohorts, envelopes, quota
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def worlds(db: None) -> list[TenantWorld]:
    """Three tenants; what belongs to the first breaks."""
    a_catalogue()
    return [a_tenant(name) for name in ("acme", "globex", "initech")]


def breaks_for(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, mine: Callable[[Any], bool]
) -> list[Any]:
    """What this function was asked for, while it breaks for some."""
    asked: list[Any] = []
    real = getattr(module, name)

    def broken(*args: Any, **named: Any) -> Any:
        subject = args[0] if args else named["tenant_id"]
        asked.append(subject)
        if mine(subject):
            raise ZeroDivisionError
        return real(*args, **named)

    monkeypatch.setattr(module, name, broken)
    return asked


def resting(sweep: str) -> set[UUID]:
    """What this sweep leaves alone for a while."""
    return set(SweepFault.objects.filter(sweep=sweep).values_list("subject_id", flat=True))


def scheduled(world: TenantWorld, nominal: int, minutes: int) -> UUID:
    """A version of the tenant's envelope that is due in so many minutes."""
    version: EnvelopeVersion = envelopes.envelope_schedule(
        tenant_id=world.tenant.pk,
        resource_class=CLASS,
        nominal_milli=nominal,
        effective_from=clock.now() + timedelta(minutes=minutes),
        reason="growth",
        actor=OPERATOR,
    )
    return version.pk


def nominal(world: TenantWorld) -> int:
    """What the tenant may hold now."""
    return QuotaCounter.objects.get(tenant=world.tenant).limit_milli


def test_a_broken_version_stops_the_later_ones_of_its_tenant_alone(
    worlds: list[TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [scheduled(worlds[0], 65_000 + 1000 * k, 10 + k) for k in range(3)]
    other = [scheduled(worlds[1], 65_000 + 1000 * k, 10 + k) for k in range(2)]
    EnvelopeVersion.objects.filter(pk__in=[*first, *other]).update(
        effective_from=clock.db_now() - timedelta(seconds=1)
    )
    with monkeypatch.context() as patch:
        asked = breaks_for(patch, envelopes, "_apply_due", lambda pk: pk == first[1])
        assert envelopes.envelopes_apply_due() == 3
        assert [pk for pk in asked if pk in first] == first[:2]
        assert envelopes.envelopes_apply_due() == 0
    assert (nominal(worlds[0]), nominal(worlds[1])) == (65_000, 66_000)
    assert resting("tenants.envelopes") == {worlds[0].tenant.pk}
    SweepFault.objects.all().delete()
    assert (envelopes.envelopes_apply_due(), nominal(worlds[0])) == (2, 67_000)


def test_a_broken_burst_stops_its_tenant_alone(
    worlds: list[TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    cohorts.cohort_create(name="all", actor=OPERATOR)
    rules: list[BurstRule] = []
    for world in worlds:
        cohorts.tenant_cohort_set(
            tenant_id=world.tenant.pk, cohort="all", reason="test", actor=OPERATOR
        )
        opens = clock.now() + timedelta(minutes=5)
        rules.append(
            bursts.burst_create(
                tenant_id=world.tenant.pk,
                resource_class=CLASS,
                name="night",
                extra_milli=1000,
                opens_at=opens,
                closes_at=opens + timedelta(hours=1),
                actor=OPERATOR,
            )
        )
    BurstRule.objects.update(opens_at=clock.db_now() - timedelta(seconds=1))
    real = bursts.window_of

    def window(rule: BurstRule) -> Any:
        if rule.pk == rules[0].pk:
            raise ValueError
        return real(rule)

    monkeypatch.setattr(bursts, "window_of", window)
    assert bursts.bursts_turn() == 2
    states = dict(BurstRule.objects.values_list("pk", "state"))
    assert [states[rule.pk] for rule in rules] == ["scheduled", "open", "open"]
    assert resting("tenants.bursts") == {worlds[0].tenant.pk}


def test_a_broken_drain_is_announced_by_nobody_else(
    worlds: list[TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    QuotaCounter.objects.update(drain_at=clock.db_now() - timedelta(seconds=1))
    mine = set(QuotaCounter.objects.filter(tenant=worlds[0].tenant).values_list("pk", flat=True))
    breaks_for(monkeypatch, quota, "_drain_announce", lambda pk: pk in mine)
    due = QuotaCounter.objects.count() - len(mine)
    assert quota.drains_announce() == due
    assert resting("tenants.drains") == {worlds[0].tenant.pk}


def test_a_tenant_that_cannot_be_warned_of_its_spending_stops_no_other(
    worlds: list[TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_host()
    for world in worlds:
        world.order(slots=1)
    for world in worlds:
        TenantCaps.objects.update_or_create(tenant=world.tenant, defaults={"spend_soft_micro": 1})
    with monkeypatch.context() as patch:
        breaks_for(patch, spending, "spend_warn", lambda pk: pk == worlds[0].tenant.pk)
        assert spending.spend_sweep() == 2
    assert resting("placement.spending") == {worlds[0].tenant.pk}


def test_a_late_thing_that_cannot_be_said_stops_no_other(
    worlds: list[TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_host()
    for world in worlds:
        world.order(slots=1)
    Allocation.objects.update(state_since=clock.db_now() - timedelta(hours=1))
    first = Allocation.objects.get(tenant=worlds[0].tenant)
    with monkeypatch.context() as patch:
        breaks_for(patch, watching, "_say", lambda row: row.pk == first.pk)
        watching.overdue_sweep()
    said = Event.objects.filter(kind=watching.KIND, subject_kind="placement.allocation")
    assert said.count() == 2
    assert resting("enforcement.overdue") == {first.pk}


def test_somebody_who_was_faster_is_no_fault_but_a_move_that_never_fits_is() -> None:
    one, other = UUID(int=1), UUID(int=2)
    due = {one, other}

    def act(subject: UUID) -> None:
        if subject == one:
            due.discard(one)  # somebody else has moved it meanwhile
        raise TransitionRefused

    with transaction.atomic():
        done = sweeping.each("test.moves", lambda rest: sorted(due - set(rest)), act)
    assert (done, resting("test.moves")) == (0, {other})
