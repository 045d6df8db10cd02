"""May this workload share its GPUs with another, and with whom?

Isolation, from weak to strong: shared, mig, gpu, vm, node, cluster. Sharing a GPU by time
(``shared``) gives no isolation of memory or faults: NVIDIA says so of time-slicing (GPU
Operator documentation, on time-slicing: no memory or fault isolation between replicas),
while a MIG instance has memory and fault isolation of its own ("NVIDIA Multi-Instance GPU
User Guide", Introduction). So a tier that promises more than a mode gives may not use it,
and without isolation only workloads of one tenant share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RANK: Final = {"shared": 0, "mig": 1, "gpu": 2, "vm": 3, "node": 4, "cluster": 5}
MODES: Final = {"none": "gpu", "shared": "shared", "mig": "mig", "node": "node"}
"""What each mode gives between those who share."""
PART_MODES: Final = {"mig": "mig", "gpu_share": "shared"}
"""What those who hold parts of one GPU share it by, by the shape that is leased."""
ANY_TENANT: Final = "any"
OWN_TENANT: Final = "own"
"""Whose work may be on the same node."""


@dataclass(frozen=True, slots=True)
class Sharer:
    """One workload that would share: whose it is, and what its tier promises."""

    tenant: str
    tier_isolation: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class SharingAnswer:
    """Whether it may; the code is empty when it may."""

    code: str = ""
    detail: str = ""


def eligible(mode: str, *, shape: str, tier_isolation: str, sku_isolation: str) -> SharingAnswer:
    """Whether a workload may share at all in this mode, by its tier and its SKU."""
    sold = PART_MODES.get(shape)
    if mode == "none" and sold is None:
        return SharingAnswer(detail="The GPUs are its own.")
    if mode == "none":
        return SharingAnswer(
            "sharing_not_eligible",
            f"A {shape} is a part of a GPU that others have parts of: its mode is {sold}.",
        )
    if mode == "node":
        return SharingAnswer(detail="No other tenant is on its nodes.")
    given = MODES.get(mode)
    if given is None:
        return SharingAnswer("sharing_not_eligible", f"There is no mode {mode!r}.")
    if shape == "baremetal":
        return SharingAnswer(
            "sharing_not_eligible", "A whole node is nobody else's; lease slots to share."
        )
    if sold != mode:
        wanted = next(part for part, by in PART_MODES.items() if by == mode)
        return SharingAnswer(
            "sharing_not_eligible",
            f"The mode {mode} goes with an SKU of the shape {wanted}; this one is {shape}.",
        )
    if RANK[given] < RANK.get(tier_isolation, RANK["cluster"]):
        return SharingAnswer(
            "sharing_not_eligible",
            f"The tier promises {tier_isolation}; {mode} gives {given} only.",
        )
    if RANK[given] < RANK.get(sku_isolation, RANK["cluster"]):
        return SharingAnswer(
            "sharing_not_eligible", f"The SKU is sold with {sku_isolation}; {mode} gives {given}."
        )
    return SharingAnswer(detail=f"{mode} gives the isolation that is promised.")


def neighbours_of(mode: str, *, tier_isolation: str, shape: str) -> str:
    """Whose work may be on the same node, by what the workload shares and its tier promises.

    A tier that promises a node keeps it for the tenant, also where less than all of it is
    leased. A whole node is nobody else's anyway; a cluster of its own is more than a node.
    """
    alone = mode == "node" or tier_isolation == "node"
    return OWN_TENANT if alone and shape != "baremetal" else ANY_TENANT


def compatible(mode: str, sharers: list[Sharer], *, gpu_bytes: int | None) -> SharingAnswer:
    """Whether these may share one GPU: whose they are, and whether their memory fits."""
    tenants = {sharer.tenant for sharer in sharers}
    if mode == "shared" and len(tenants) > 1:
        return SharingAnswer(
            "sharing_not_eligible", "Without isolation only one tenant's workloads share a GPU."
        )
    weakest = RANK[MODES[mode]]
    strict = [s for s in sharers if RANK.get(s.tier_isolation, RANK["cluster"]) > weakest]
    if strict:
        return SharingAnswer(
            "sharing_not_eligible", f"The tier of {strict[0].tenant} promises more than {mode}."
        )
    if gpu_bytes is None or any(s.memory_bytes is None for s in sharers):
        return SharingAnswer("gpu_memory_unknown", "Not every share of the memory is known.")
    asked = sum(s.memory_bytes or 0 for s in sharers)
    if asked > gpu_bytes:
        return SharingAnswer(
            "gpu_memory_exceeded", f"{asked} bytes asked together; the GPU has {gpu_bytes}."
        )
    return SharingAnswer(detail=f"{asked} of {gpu_bytes} bytes are asked.")
