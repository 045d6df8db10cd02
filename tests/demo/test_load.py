"""Is the demo's world loaded whole, once, whatever was there before?"""

from __future__ import annotations

import pytest
from django.apps import apps
from pytest_django import Settings

from gpuaas.demo import load, world
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import tenant_scope
from placement.domain.order import AllocationOrder
from placement.services.allocations import allocation_plan
from tenants.models import Project, Sku, Tenant, User
from tenants.services import access, tenancy

pytestmark = pytest.mark.django_db

PASSWORDS = {person.email: f"pass-{number}-words" for number, person in enumerate(world.accounts())}


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """The product's hasher is slow on purpose; nobody attacks these."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def rows() -> dict[str, int]:
    """How many rows each table has."""
    ours = ("tenants", "admission", "placement", "kernel")
    return {
        model._meta.label: model._default_manager.count()
        for model in apps.get_models()
        if model._meta.app_label in ours
    }


def run() -> list[str]:
    """Load, and return the lines that were said."""
    said: list[str] = []
    load.load(PASSWORDS, said.append)
    return said


def test_a_second_load_changes_nothing() -> None:
    run()
    before = rows()
    assert before["tenants.Tenant"] == 3
    assert before["tenants.Sku"] == 13
    run()
    assert rows() == before


def test_a_load_that_was_cut_off_is_completed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    envelope_set = tenancy.envelope_set

    def cut_off(**facts: object) -> object:
        if facts["resource_class"] == "v100-slot":
            raise KeyboardInterrupt
        return envelope_set(**facts)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(tenancy, "envelope_set", cut_off)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert set(Tenant.objects.values_list("slug", flat=True)) == {
        "acme-robotics",
        "helix-genomics",
    }
    monkeypatch.undo()
    run()
    assert set(Tenant.objects.values_list("slug", "state")) == {
        (tenant.slug, "active") for tenant in world.TENANTS
    }


def test_what_a_person_changed_since_stays() -> None:
    run()
    operator = access.user_actor(
        user=User.objects.get(email="operator@platform.test"), tenant_id=None
    )
    lumen = Tenant.objects.get(slug="lumen-studio")
    tenancy.tenant_suspend(tenant_id=lumen.pk, reason="test", actor=operator)
    tenancy.envelope_set(
        tenant_id=lumen.pk, resource_class="h100-slot", nominal_milli=0, reason="t", actor=operator
    )
    owner = User.objects.get(email="owner@lumen.test")
    owner.set_password("another password of mine")
    owner.save()
    run()
    lumen.refresh_from_db()
    assert lumen.state == "suspended"
    assert lumen.envelopes.get(resource_class__name="h100-slot").nominal_milli == 0
    owner.refresh_from_db()
    assert owner.check_password("another password of mine")


def test_everybody_can_sign_in_and_only_operators_are_staff() -> None:
    run()
    for person in world.accounts():
        user = User.objects.get(email=person.email)
        assert user.check_password(PASSWORDS[person.email])
        assert user.is_staff is (person in world.OPERATORS)


def test_every_sku_is_on_sale_at_a_price_that_a_plan_can_tell() -> None:
    run()
    assert set(Sku.objects.values_list("state", flat=True)) == {"published"}
    acme = Tenant.objects.get(slug="acme-robotics")
    actor = access.user_actor(user=User.objects.get(email="owner@acme.test"), tenant_id=acme.pk)
    with tenant_scope(acme.pk):
        plan = allocation_plan(
            tenant_id=acme.pk,
            project_id=Project.objects.get(tenant=acme, slug="research").pk,
            order=AllocationOrder(sku="h100-slice", slots=2),
            actor=actor,
        )
    assert (plan.fits, plan.code, plan.price_hour_micro) == (False, "never_fits", 6_400_000)


def test_every_part_is_recorded_with_who_did_it() -> None:
    run()
    kinds = set(Event.objects.values_list("kind", flat=True))
    assert {"tenants.tenant.approve", "tenants.sku.publish", "tenants.envelope.set"} <= kinds
    approvals = Event.objects.filter(kind="tenants.tenant.approve")
    assert {event.actor["name"] for event in approvals} == {"operator@platform.test"}
