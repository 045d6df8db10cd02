"""Does a model with this batch and context fit into the memory of its GPUs?

Three parts, in bytes over all GPUs of one replica:

* weights = parameters x bytes per parameter.
* key-value cache = 2 (a key and a value) x layers x KV heads x head dimension x bytes per
  element, for each token of each sequence in the batch. Source: W. Kwon and others, "Efficient
  Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023), section
  3: for OPT-13B 2 x 5120 x 40 x 2 bytes = 800 KB a token. With grouped-query attention
  only the KV heads count (J. Ainslie and others, "GQA", EMNLP 2023).
* activations and the engine's own buffers: a margin of the weights; there is no formula that
  holds for every engine, so the margin is declared and shown.

Compared with slots x memory of one GPU x (1 - reserve). The reserve is what the driver, the
context and fragmentation take: vLLM uses 90 % of a GPU unless told otherwise (its argument
``gpu_memory_utilization`` of 0.9), which is the default here. All in integers, rounded against us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

RESERVE_PERMILLE: Final = 100
ACTIVATION_PERMILLE: Final = 100
FITS, EXCEEDED, UNKNOWN = "", "gpu_memory_exceeded", "gpu_memory_unknown"


@dataclass(frozen=True, slots=True)
class Model:
    """What decides a model's memory. Bytes per parameter in thousandths (4 bits = 500)."""

    parameters: int
    milli_bytes_per_parameter: int
    layers: int
    kv_heads: int
    head_dim: int
    kv_bytes: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is needed beside what there is, in bytes; ``code`` is empty when it fits.

    ``missing`` names the figures of the model that were not given, where that is why it is unknown.
    """

    code: str
    weights: int = 0
    kv_cache: int = 0
    activations: int = 0
    available: int = 0
    largest_batch: int = 0
    missing: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """Everything together."""
        return self.weights + self.kv_cache + self.activations

    @property
    def left(self) -> int:
        """What remains; below 0 when it does not fit."""
        return self.available - self.needed

    def as_json(self) -> dict[str, Any]:
        """The numbers for the record; of what is unknown there are none."""
        if self.code == UNKNOWN:
            return {"missing": list(self.missing)} if self.missing else {}
        return {
            "weights_bytes": self.weights,
            "kv_cache_bytes": self.kv_cache,
            "activation_bytes": self.activations,
            "needed_bytes": self.needed,
            "available_bytes": self.available,
            "left_bytes": self.left,
            "largest_batch": self.largest_batch,
        }


def kv_bytes_per_token(model: Model) -> int:
    """The key-value cache of one token."""
    return 2 * model.layers * model.kv_heads * model.head_dim * model.kv_bytes


def headroom(
    model: Model,
    *,
    batch: int,
    gpu_bytes: int | None,
    gpus: int,
    reserve_permille: int = RESERVE_PERMILLE,
    activation_permille: int = ACTIVATION_PERMILLE,
) -> Headroom:
    """Whether one replica on ``gpus`` GPUs holds the model with this many sequences at once.

    ``gpu_bytes`` None: the memory is not known, and unknown is not enough.
    """
    if gpu_bytes is None or gpus < 1:
        return Headroom(UNKNOWN)
    weights = -(-model.parameters * model.milli_bytes_per_parameter // 1000)
    activations = -(-weights * activation_permille // 1000)
    available = gpu_bytes * gpus * (1000 - reserve_permille) // 1000
    sequence = kv_bytes_per_token(model) * model.context_tokens
    room = max(0, available - weights - activations)
    largest = room // sequence if sequence else 0
    kv_cache = sequence * batch
    fits = weights + activations + kv_cache <= available
    return Headroom(FITS if fits else EXCEEDED, weights, kv_cache, activations, available, largest)
