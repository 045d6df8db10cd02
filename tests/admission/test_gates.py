"""Do the ordered gates say what they should, over tables of facts?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.domain.decide import decide
from admission.domain.facts import Facts, Holding, Quota
from admission.domain.headroom import Headroom, Model, headroom, kv_bytes_per_token
from admission.domain.locality import Conflict, Data, Near, Wish, near, wishes
from admission.domain.outcome import OUTCOMES, outcome_of
from admission.domain.policy import Answer
from admission.domain.sharing import Sharer, SharingAnswer, compatible, eligible
from gpuaas.kernel.errors import catalogue
from tenants.domain.caps import Caps
from tenants.domain.cohorts import Pot

QUOTA = Quota(limit_milli=8000, used_milli=2000, version=1)
GOOD = Facts(
    actor="ann",
    may_write=True,
    tenant_state="active",
    project_known=True,
    sku="h100.slice",
    sku_state="published",
    shape="gpu_slice",
    slots_min=1,
    slots_max=8,
    slots_asked=2,
    amount_milli=2000,
    resource_class="h100-slot",
    quota=QUOTA,
    tier="standard",
    tier_asked="",
    tier_isolation="vm",
    sku_isolation="vm",
    band=1,
    image="ubuntu",
    image_known=True,
    tenant="acme",
    family="h100x8",
    pool="default",
)


def caps(**limits: Any) -> Holding:
    """One live allocation, one waiting request, 100 committed, beside these limits."""
    return Holding(Caps(**limits), live=1, waiting=1, committed_micro=100)


REFUSED: dict[str, tuple[str, str, bool, dict[str, Any]]] = {
    "somebody who may not write": ("identity", "permission_denied", False, {"may_write": False}),
    "a project of somebody else": ("identity", "not_found", False, {"project_known": False}),
    "a tenant that is not approved": (
        "tenant_state",
        "tenant_pending",
        False,
        {"tenant_state": "pending"},
    ),
    "a suspended tenant": ("tenant_state", "tenant_suspended", True, {"tenant_state": "suspended"}),
    "a tenant that is leaving": (
        "tenant_state",
        "tenant_not_active",
        False,
        {"tenant_state": "deleting"},
    ),
    "a SKU that is not sold": (
        "entitlement",
        "sku_not_published",
        False,
        {"sku_state": "retired"},
    ),
    "a SKU outside the catalogue": (
        "entitlement",
        "entitlement_missing",
        False,
        {"entitled": False},
    ),
    "a pool nobody made": ("entitlement", "authority_incomplete", False, {"pool_known": False}),
    "a class without envelope": ("entitlement", "authority_incomplete", True, {"quota": None}),
    "a tier without priority class": (
        "entitlement",
        "authority_incomplete",
        True,
        {"band": None},
    ),
    "a tier without isolation level": (
        "entitlement",
        "authority_incomplete",
        True,
        {"tier_isolation": ""},
    ),
    "a tier without preemption policy": (
        "entitlement",
        "authority_incomplete",
        True,
        {"preemption": ""},
    ),
    "too many slots": ("policy", "slots_out_of_range", False, {"slots_asked": 9}),
    "an image nobody has": ("policy", "image_unknown", False, {"image_known": False}),
    "a key of somebody else": ("policy", "ssh_key_missing", False, {"keys_unknown": ("k",)}),
    "a shape that the caps leave out": (
        "quota",
        "shape_not_allowed",
        False,
        {"holding": caps(shapes=("baremetal",))},
    ),
    "a zone that the caps leave out": (
        "quota",
        "zone_not_allowed",
        False,
        {"holding": caps(zones=("a",)), "zones": ("b",)},
    ),
    "a band that the caps leave out": (
        "quota",
        "band_not_allowed",
        False,
        {"holding": caps(best_band=2)},
    ),
    "more slots than the cap": (
        "quota",
        "request_too_large",
        False,
        {"holding": caps(slots_per_request=1)},
    ),
    "one allocation too many": (
        "quota",
        "too_many_allocations",
        True,
        {"holding": caps(allocations=1)},
    ),
    "more money than the hard cap": (
        "quota",
        "spend_cap_exceeded",
        True,
        {"holding": caps(spend_hard_micro=99)},
    ),
    "more than is left of the envelope": (
        "quota",
        "envelope_exceeded",
        True,
        {"quota": replace(QUOTA, used_milli=7000)},
    ),
    "more than the envelope could ever hold": (
        "quota",
        "envelope_exceeded",
        False,
        {"quota": replace(QUOTA, limit_milli=1000, used_milli=0)},
    ),
    "more than the project's own limit leaves": (
        "quota",
        "project_quota_exceeded",
        True,
        {"quota": replace(QUOTA, project=(3000, 2000, 0))},
    ),
    "more than the cohort has left": (
        "quota",
        "cohort_exhausted",
        True,
        {"quota": replace(QUOTA, cohort="all", pots=(Pot(quota=8000, used=7000),))},
    ),
    "a tier that is not theirs": ("tier", "tier_not_allowed", False, {"tier_asked": "gold"}),
    "a band above the tier's": ("tier", "band_not_allowed", False, {"band_asked": 0}),
    "a model too large for the memory": (
        "sharing",
        "gpu_memory_exceeded",
        False,
        {"headroom": Headroom("gpu_memory_exceeded", 10, 0, 0, 5)},
    ),
    "memory that nobody knows": (
        "sharing",
        "gpu_memory_unknown",
        False,
        {"headroom": Headroom("gpu_memory_unknown")},
    ),
    "sharing that the tier forbids": (
        "sharing",
        "sharing_not_eligible",
        False,
        {"sharing": SharingAnswer("sharing_not_eligible", "no")},
    ),
    "less isolation than was promised": (
        "isolation",
        "isolation_not_offered",
        False,
        {"sku_isolation": "shared"},
    ),
    "a data set nobody declared": (
        "locality",
        "dataset_unknown",
        False,
        {"data_unknown": ("faces",)},
    ),
    "storage nobody offers": (
        "locality",
        "storage_not_offered",
        False,
        {"storage": ("tape",)},
    ),
    "data that lies apart": (
        "locality",
        "locality_conflict",
        False,
        {"zones": ("a",), "data": (Data("faces", 1, zones=("b",)),)},
    ),
}


@pytest.mark.parametrize(("gate", "code", "waits", "change"), REFUSED.values(), ids=REFUSED.keys())
def test_the_gate_refuses(gate: str, code: str, waits: bool, change: dict[str, Any]) -> None:
    refusal = decide(replace(GOOD, **change)).refusal
    assert refusal is not None
    assert (refusal.gate, refusal.code, refusal.waits) == (gate, code, waits)
    assert code in catalogue()
    assert refusal.detail


def test_the_gates_are_passed_in_their_order_and_capacity_is_not_among_them() -> None:
    verdict = decide(GOOD)
    assert verdict.refusal is None
    assert [gate.gate for gate in verdict.gates] == [
        "identity",
        "tenant_state",
        "entitlement",
        "policy",
        "quota",
        "tier",
        "sharing",
        "isolation",
        "locality",
    ]


@pytest.mark.parametrize(
    ("missing", "change"),
    [
        ("envelope", {"quota": None}),
        ("priority_class", {"band": None}),
        ("isolation", {"tier_isolation": ""}),
        ("preemption_policy", {"preemption": ""}),
        ("pool", {"pool_known": False}),
    ],
)
def test_incomplete_authority_names_what_is_missing(missing: str, change: dict[str, Any]) -> None:
    refusal = decide(replace(GOOD, **change)).refusal
    assert refusal is not None
    assert refusal.facts["missing"] == [missing]


def test_all_that_is_missing_is_named_at_once() -> None:
    bare = replace(GOOD, quota=None, band=None, tier_isolation="", preemption="")
    refusal = decide(bare).refusal
    assert refusal is not None
    assert refusal.facts["missing"] == [
        "envelope",
        "priority_class",
        "isolation",
        "preemption_policy",
    ]
    for words in ("no envelope for h100-slot", "no priority class", "no isolation level"):
        assert words in refusal.detail


@pytest.mark.parametrize(("broken", "code"), [(True, "policy_broken"), (False, "policy_forbids")])
def test_a_rule_that_refuses_or_is_broken_is_named(broken: bool, code: str) -> None:
    answer = Answer("nights-only", 2, broken, "why", windowed=True)
    refusal = decide(GOOD, judge=lambda _seen: answer).refusal
    assert refusal is not None
    assert (refusal.code, refusal.facts["rule"], refusal.facts["rule_version"]) == (
        code,
        "nights-only",
        2,
    )
    assert refusal.waits is (not broken)
    assert "nights-only" in refusal.detail


def test_a_borrower_may_take_what_its_cohort_has_left_and_no_more() -> None:
    quota = Quota(2000, 2000, borrow_milli=4000, cohort="all", pots=(Pot(quota=6000, used=3000),))
    assert quota.free_milli == 3000
    assert decide(replace(GOOD, quota=quota, amount_milli=3000)).refusal is None
    refusal = decide(replace(GOOD, quota=quota, amount_milli=4000)).refusal
    assert refusal is not None
    assert (refusal.code, refusal.facts["free_milli"]) == ("cohort_exhausted", 3000)


@given(
    st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 5_000), st.integers(1, 20_000)
)
def test_the_quota_gate_admits_exactly_what_the_limits_allow(
    limit: int, used: int, borrow: int, asked: int
) -> None:
    quota = Quota(limit, used, borrow_milli=borrow)
    refusal = decide(replace(GOOD, quota=quota, amount_milli=asked)).refusal
    assert (refusal is None) == (used + asked <= limit + borrow or asked <= 0)


def test_the_same_facts_have_the_same_digest_and_others_another() -> None:
    assert GOOD.digest() == replace(GOOD).digest()
    others = [replace(GOOD, **change) for _, _, _, change in REFUSED.values()]
    assert len({facts.digest() for facts in others} | {GOOD.digest()}) == len(others) + 1


LLAMA = Model(8_000_000_000, 2000, 32, 8, 128, 2, 8192)


def test_the_cache_of_a_token_is_as_published() -> None:
    opt_13b = replace(LLAMA, layers=40, kv_heads=40, head_dim=128, kv_bytes=2)
    assert kv_bytes_per_token(opt_13b) == 2 * 5120 * 40 * 2


@pytest.mark.parametrize(
    ("batch", "gpus", "gpu_bytes", "code"),
    [
        (1, 1, 80 * 2**30, ""),
        (1, 1, 16 * 2**30, "gpu_memory_exceeded"),
        (1000, 1, 80 * 2**30, "gpu_memory_exceeded"),
        (100, 2, 80 * 2**30, ""),
        (1, 1, None, "gpu_memory_unknown"),
        (1, 0, 80 * 2**30, "gpu_memory_unknown"),
    ],
)
def test_a_model_fits_or_does_not(batch: int, gpus: int, gpu_bytes: int | None, code: str) -> None:
    assert headroom(LLAMA, batch=batch, gpus=gpus, gpu_bytes=gpu_bytes).code == code


@given(
    st.integers(1, 10**12),
    st.integers(100, 8000),
    st.integers(1, 200),
    st.integers(1, 128),
    st.integers(1, 131_072),
    st.integers(1, 512),
    st.integers(1, 16),
)
def test_the_largest_batch_fits_and_one_more_does_not(
    parameters: int, width: int, layers: int, heads: int, context: int, batch: int, gpus: int
) -> None:
    model = Model(parameters, width, layers, heads, 128, 2, context)
    found = headroom(model, batch=batch, gpus=gpus, gpu_bytes=80 * 2**30)
    assert (found.code == "") == (found.left >= 0)
    if found.largest_batch:
        most = headroom(model, batch=found.largest_batch, gpus=gpus, gpu_bytes=80 * 2**30)
        over = headroom(model, batch=found.largest_batch + 1, gpus=gpus, gpu_bytes=80 * 2**30)
        assert (most.code, over.code) == ("", "gpu_memory_exceeded")


@pytest.mark.parametrize(
    ("mode", "shape", "tier", "sku", "code"),
    [
        ("none", "gpu_slice", "vm", "vm", ""),
        ("shared", "gpu_share", "shared", "shared", ""),
        ("shared", "gpu_share", "vm", "shared", "sharing_not_eligible"),
        ("shared", "gpu_share", "shared", "vm", "sharing_not_eligible"),
        ("shared", "gpu_slice", "shared", "shared", "sharing_not_eligible"),
        ("shared", "mig", "shared", "shared", "sharing_not_eligible"),
        ("mig", "mig", "mig", "mig", ""),
        ("mig", "mig", "gpu", "mig", "sharing_not_eligible"),
        ("mig", "gpu_slice", "mig", "mig", "sharing_not_eligible"),
        ("none", "mig", "shared", "mig", "sharing_not_eligible"),
        ("node", "mig", "node", "mig", ""),
        ("mig", "baremetal", "shared", "shared", "sharing_not_eligible"),
        ("vgpu", "gpu_slice", "shared", "shared", "sharing_not_eligible"),
    ],
)
def test_who_may_share(mode: str, shape: str, tier: str, sku: str, code: str) -> None:
    assert eligible(mode, shape=shape, tier_isolation=tier, sku_isolation=sku).code == code


@pytest.mark.parametrize(
    ("mode", "sharers", "gpu_bytes", "code"),
    [
        ("shared", [Sharer("a", "shared", 4), Sharer("a", "shared", 4)], 8, ""),
        ("shared", [Sharer("a", "shared", 4), Sharer("b", "shared", 4)], 8, "sharing_not_eligible"),
        ("mig", [Sharer("a", "mig", 4), Sharer("b", "mig", 4)], 8, ""),
        ("mig", [Sharer("a", "mig", 4), Sharer("b", "gpu", 4)], 8, "sharing_not_eligible"),
        ("mig", [Sharer("a", "mig", 5), Sharer("b", "mig", 4)], 8, "gpu_memory_exceeded"),
        ("mig", [Sharer("a", "mig", None), Sharer("b", "mig", 4)], 8, "gpu_memory_unknown"),
    ],
)
def test_who_may_share_with_whom(
    mode: str, sharers: list[Sharer], gpu_bytes: int, code: str
) -> None:
    assert compatible(mode, sharers, gpu_bytes=gpu_bytes).code == code


def test_required_places_are_intersected_and_preferred_ones_bind_nothing() -> None:
    faces = Data("faces", 1, zones=("a", "b"), racks=("r1",))
    words = Data("words", 2, zones=("b", "c"))
    wish = Data("cache", 1, zones=("z",), required=False)
    assert near((), ()) == Near()
    assert near((), (faces, words, wish)) == Near(zones=("b",), racks=("r1",))
    assert wishes((), (wish,)) == (Wish(("cache",), Near(zones=("z",))),)
    assert wishes((), (faces, wish)) == (), "it is never beyond what is required"
    apart = near(("c",), (faces,))
    assert isinstance(apart, Conflict)
    assert apart.kind == "zones"


@pytest.mark.parametrize(
    ("verdict", "code", "outcome"),
    [
        ("admit", "", "admitted"),
        ("deny", "envelope_exceeded", "denied"),
        ("deny", "policy_broken", "denied"),
        ("wait", "envelope_exceeded", "waiting_for_authority"),
        ("wait", "tenant_suspended", "waiting_for_authority"),
        ("deny", "forbidden_by_locality", "forbidden_by_locality_or_topology"),
        ("wait", "forbidden_by_locality", "forbidden_by_locality_or_topology"),
        ("deny", "sku_unavailable", "no_capacity"),
        ("deny", "never_fits", "no_capacity"),
        ("wait", "waiting_for_capacity", "no_capacity"),
    ],
)
def test_denied_is_not_unavailable(verdict: str, code: str, outcome: str) -> None:
    assert outcome_of(verdict, code) == outcome
    assert outcome in OUTCOMES
