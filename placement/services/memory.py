"""Does a model fit into the memory of the GPUs that it would get?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Min

from admission.domain.headroom import UNKNOWN, Headroom, Model, headroom
from gpuaas.kernel.errors import FieldError, InvalidRequest
from gpuaas.kernel.scope import platform_scope
from placement.domain.mig import BOARDS
from placement.domain.parts import MIB
from placement.models import GpuDevice
from tenants.models import PARTS, Sku

_FIGURES: Final = {
    "parameters": 10**14,
    "milli_bytes_per_parameter": 16_000,
    "layers": 10_000,
    "kv_heads": 10_000,
    "head_dim": 100_000,
    "kv_bytes": 16,
    "context_tokens": 10**9,
}


def whole_number(value: Any, pointer: str, most: int, *, least: int = 1) -> int:
    """The value, if it is an integer within bounds. Raises InvalidRequest naming the field."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest(
            f"{pointer}: a whole number from {least} to {most}.",
            errors=(FieldError(pointer, "out_of_range", f"{least} to {most}"),),
        )
    return value


def _figures(spec: Mapping[str, Any]) -> dict[str, int]:
    """Those of the model's figures that are given. Raises InvalidRequest naming each odd one."""
    given = spec.get("model", {})
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            "/spec/model: an object with the model's figures.",
            errors=(FieldError("/spec/model", "wrong_type", f"with {', '.join(_FIGURES)}"),),
        )
    if odd := sorted(set(given) - set(_FIGURES)):
        known = f"no such figure; there are {', '.join(_FIGURES)}"
        raise InvalidRequest(
            "Some of the model's figures are not known.",
            errors=tuple(FieldError(f"/spec/model/{n}", "unknown", known) for n in odd),
        )
    return {
        name: whole_number(given[name], f"/spec/model/{name}", most)
        for name, most in _FIGURES.items()
        if name in given
    }


def _gpu_bytes(family: str) -> int | None:
    """The smallest GPU memory in the family, when the memory of each GPU is known."""
    gpus = GpuDevice.objects.filter(node__family__name=family)
    if gpus.filter(memory_bytes__isnull=True).exists():
        return None
    least: int | None = gpus.aggregate(least=Min("memory_bytes"))["least"]
    return least


def memory_of(
    sku_name: str, slots: int | None, batch: int | None, spec: Mapping[str, Any]
) -> Headroom:
    """What a model leaves free of the GPUs of a SKU, or that it is not known."""
    figures = _figures(spec)
    if missing := tuple(name for name in _FIGURES if name not in figures):
        return Headroom(UNKNOWN, missing=missing)
    model = Model(**figures)
    with platform_scope():
        sku = Sku.objects.filter(name=sku_name).first()
        if sku is None:
            return Headroom(UNKNOWN)
        gpus = slots or sku.slots_min
        if sku.shape == "baremetal":
            gpus = max(1, sku.units_milli // 1000)
        gpu_bytes = _gpu_bytes(sku.family)
        if sku.shape in PARTS:
            gpus, gpu_bytes = 1, _part_bytes(sku)
        return headroom(model, batch=batch or 1, gpu_bytes=gpu_bytes, gpus=gpus)


def _part_bytes(sku: Sku) -> int | None:
    """The memory that goes with a part; of an instance the least that any board calls so."""
    if sku.part_memory_mib is not None:
        return sku.part_memory_mib * MIB
    rows = [row for board in BOARDS if (row := board.profile(sku.part_profile))]
    return min((row.memory_gb * 10**9 for row in rows), default=None)
