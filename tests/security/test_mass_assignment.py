"""Can a caller set what is not theirs to set, by sending more members than an address takes?"""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import models

from gpuaas.api import limits
from gpuaas.api.permissions import rule_of
from gpuaas.api.routes import Route, routes
from gpuaas.kernel.guards import guarded_models
from tests.security.world import World, a_world, asked, body_of

pytestmark = pytest.mark.django_db

WRITES = [
    (route, method)
    for route in routes()
    for method in route.methods
    if method not in {"GET", "DELETE"}
]
# Made with each sign-in and each call, whatever is sent.
NOT_COMPARED = {"axes", "sessions", "admin", "contenttypes", "auth"}
ORDER = {"slots", "name", "image", "ssh_keys", "wait", "tier", "own", "max_duration_s"}
BARE = {"node-discover", "notice-acknowledge"}


def ours() -> list[type[models.Model]]:
    return [m for m in apps.get_models() if m._meta.app_label not in NOT_COMPARED]


def everything() -> dict[str, list[tuple[Any, ...]]]:
    """Every row of ours, without when a token or a host was last heard."""
    found = {}
    for model in ours():
        fields = [
            field.attname
            for field in model._meta.concrete_fields
            if not field.attname.startswith("last_")
        ]
        found[model._meta.label] = sorted(model._default_manager.values_list(*fields), key=str)
    return found


def field_names() -> list[str]:
    """The name of every column that a model of ours has."""
    return sorted(
        {
            name
            for model in guarded_models()
            for field in model._meta.concrete_fields
            for name in (field.name, field.attname)
        }
        | {"is_staff", "is_superuser", "role", "operator", "actor"}
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    spent = limits.Spent(limits.API, True, 1000, 0)
    monkeypatch.setattr(limits.Buckets, "spend", lambda self, policy, principal: spent)
    return a_world()


def is_agents(route: Route) -> bool:
    return route.pattern.startswith("/agent/")


def caller_for(world: World, route: Route) -> Any:
    if is_agents(route):
        return world.own_node
    rules = [rule_of(route.name, method) for method in route.methods if method != "GET"]
    owner_may = any(rule is not None and rule.who != "operator" for rule in rules)
    return world.callers["owner" if owner_may else "operator"]


def refused(world: World, route: Route, method: str) -> bool:
    """Whether the address refuses every member that it does not declare, each by name."""
    caller, path = caller_for(world, route), world.path(route)
    body = body_of(route, method) or {}
    strange = [name for name in field_names() if name not in body and name not in known(route)]
    for start in range(0, len(strange), 90):
        part = strange[start : start + 90]
        answer = asked(caller, method, path, {**body, **dict.fromkeys(part, "x")})
        named = {error["pointer"] for error in answer.json()["errors"]}
        # An agent is told the first wrong member only.
        expected = {f"/{name}" for name in (part[:1] if is_agents(route) else part)}
        if answer.status_code != 400 or named != expected:
            return False
    return True


def test_no_address_takes_a_member_that_it_does_not_declare(world: World) -> None:
    before = everything()
    taken = []
    for route, method in WRITES:
        if route.name not in BARE and not refused(world, route, method):
            taken.append(f"{method} {route.name}")
    assert taken == []
    assert everything() == before


SETS = {"together", "close", "apart", "own", "movable"}
TERMS = {"alone", "own", "driver_min", "driver_below", "runtime_min", "tenants"}
READY = {"driver_min", "firmware_min", "auto_promote"}
ENVELOPE = {"borrow_milli", "drain_after_s", "lend_milli", "on_excess"}
OPTIONAL: dict[str, set[str]] = {
    "signup": {"full_name"},
    "auth-token": {"code", "name", "scopes", "expires_in_days", "tenant"},
    "token-list": {"scopes", "expires_in_days"},
    "ssh-key-list": {"name"},
    "service-account-token-list": {"scopes", "expires_in_days"},
    "break-glass-list": {"minutes"},
    "image-list": {"title", "reference", "username", "reason"},
    "pool-list": {"title", "reason"},
    "family-list": {"title", "gpu_model", "reason"},
    "pool-title": {"reason"},
    "family-title": {"gpu_model", "reason"},
    "sku-title": {"description", "reason"},
    "sku-list": {
        "description",
        "pool",
        "units_milli",
        "slots_min",
        "slots_max",
        "exclusive_nic",
        "part_profile",
        "part_milli",
        "part_memory_mib",
    },
    "project-allocation-list": ORDER,
    "allocation-plan": ORDER,
    "allocation-release": {"reason"},
    "admission-request-withdraw": {"reason"},
    "node-list": {"pool", "intended", "zone", "block", "rack"},
    "node-join-token": {"ttl_s"},
    "node-approve": {"family"},
    "node-evidence": {"device", "valid_s", "version"},
    "window-list": {"nodes", "pool", "zone", "rack", "announce"},
    "window-preview": {"nodes", "pool", "zone", "rack"},
    "node-drain": {"slot_index"},
    "node-undrain": {"slot_index"},
    "tenant-list": {"tier", "owner_email"},
    "tenant-suspend": {"suspension"},
    "tenant-envelope": {"reason", "seen", *ENVELOPE},
    "tenant-envelope-schedule": {"seen", *ENVELOPE},
    "tenant-envelope-preview": {"borrow_milli", "lend_milli", "effective_from"},
    "tenant-caps": {
        "allocations",
        "best_band",
        "shapes",
        "slots_per_request",
        "spend_hard_micro",
        "spend_soft_micro",
        "zones",
    },
    "tenant-burst-list": {"every_s", "on_close"},
    "project-quota": {"on_excess"},
    "quota-increase-withdraw": {"reason"},
    "quota-increase-approve": {"nominal_granted_milli"},
    "dataset-list": {"nodes", "racks", "required", "storage"},
    "storage-list": {"zones"},
    "dataset-version-list": {"nodes", "racks", "required", "storage"},
    "tenant-entitlement-list": {"until"},
    "workload-plan": {
        "band",
        "batch_size",
        "datasets",
        "image",
        "replicas",
        "spec",
        "ssh_keys",
        "storage",
        "wait",
        "zones",
        *SETS,
    },
    "project-workload-list": {
        "band",
        "batch_size",
        "datasets",
        "image",
        "replicas",
        "spec",
        "ssh_keys",
        "zones",
        "storage",
        *SETS,
    },
    "defrag-policy": {"moves", "lost_milli", "from_hour", "until_hour"},
    "defrag-plan": {"slots", "moves", "lost_milli", "request"},
    "defrag-run": {"slots", "moves", "lost_milli", "request"},
    "placement-terms-preview": TERMS,
    "separation-detail": {"seen"},
    "readiness-terms-preview": READY,
    "readiness-terms-detail": READY,
    "control-key-retire": {"at_once"},
    "placement-terms-detail": TERMS,
    "workload-scale": {"partial"},
    "workload-placement": {"datasets", "wait"},
    "workload-scale-plan": {"partial"},
    "workload-placement-plan": {"datasets", "wait"},
    "workload-stop": {"reason"},
    "cohort-list": {"parent", "title"},
    "policy-list": {"unblock"},
    "policy-dry-run": {"last"},
    "agent-task-lease": {"running"},
    "agent-task-complete": {"evidence"},
    "agent-task-fail": {"evidence"},
    "agent-observed": {"intended_use"},
    "agent-telemetry": {"lost"},
}


def known(route: Route) -> set[str]:
    """What the address takes besides what its sample body has: a change here is seen in review."""
    return OPTIONAL.get(route.name, set())
