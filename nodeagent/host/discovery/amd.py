"""What does AMD's management library say of AMD GPUs, where it is installed?

The library (`amdsmi`) comes with ROCm and is no dependency of ours: where it is absent, what it
would have told is unknown, with the reason.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.host.nvml.device import bounded, plain_text, uuid_in
from nodeagent.topology.pci import normal_address

_MOST_MEMORY = 2**50
# amdsmi.h, amdsmi_link_type_t; it was called amdsmi_io_link_type_t before.
_XGMI = 2
# Discovery and telemetry may come at once; a module is imported by one of them.
_TURN = threading.Lock()


@dataclass(frozen=True)
class AmdGpu:
    """One AMD GPU. hive: GPUs with one xGMI hive are joined; peers: those one hop away by xGMI.

    partitions: into how many it is divided now.
    """

    pci: str
    uuid: Fact[str]
    name: Fact[str]
    memory_bytes: Fact[int]
    hive: Fact[str]
    peers: tuple[str, ...] = ()
    partitions: int = 1


@dataclass(frozen=True)
class AmdReading:
    """The GPUs by address, or why the library could not be asked."""

    gpus: dict[str, AmdGpu]
    reason: str = ""


def read_amd(answered: Callable[[], None] = lambda: None) -> AmdReading:
    """Ask the library, if there is one. Never raises. answered: called after each GPU and pair."""
    with opened() as (library, reason):
        if library is None:
            return AmdReading({}, reason)
        # Looked up within: an older library has not every call, nor each answer in its form.
        handles = ask(lambda: list(library.amdsmi_get_processor_handles()))
        answered()
        if handles.value is None:
            return AmdReading({}, "library_unusable")
        found = []
        for handle in handles.value:
            found.append((handle, _read(library, handle)))
            answered()
        parts = Counter(gpu.pci for _, gpu in found if gpu is not None)
        gpus: dict[str, tuple[Any, AmdGpu]] = {}
        for handle, gpu in found:
            if gpu is not None:
                # A card that is divided is listed once for each partition, the first being its own.
                gpus.setdefault(gpu.pci, (handle, replace(gpu, partitions=parts[gpu.pci])))
        peers = _peers(library, gpus, answered)
        return AmdReading(
            {pci: replace(gpu, peers=peers.get(pci, ())) for pci, (_, gpu) in gpus.items()}
        )


@contextlib.contextmanager
def opened() -> Iterator[tuple[Any, str]]:
    """The library while inside; None, and why, where it cannot be used."""
    try:
        with _TURN:
            library: Any = importlib.import_module("amdsmi")
            library.amdsmi_init()
    except ImportError:
        yield None, "library_missing"
        return
    except Exception:
        # The binding loads its C library while it is imported and raises what it likes then.
        yield None, "library_unusable"
        return
    try:
        yield library, ""
    finally:
        ask(lambda: library.amdsmi_shut_down())


def _read(library: Any, handle: Any) -> AmdGpu | None:
    bdf = ask(lambda: library.amdsmi_get_gpu_device_bdf(handle)).value
    pci = normal_address(str(bdf)) if bdf is not None else None
    if pci is None:
        return None
    memory = ask(lambda: int(library.amdsmi_get_gpu_vram_usage(handle)["vram_total"]) * 2**20)
    return AmdGpu(
        pci=pci,
        uuid=uuid_in(ask(lambda: library.amdsmi_get_gpu_device_uuid(handle))),
        name=plain_text(ask(lambda: library.amdsmi_get_gpu_asic_info(handle)["market_name"])),
        memory_bytes=bounded(memory, 1, _MOST_MEMORY),
        hive=_hive(ask(lambda: library.amdsmi_get_xgmi_info(handle)["xgmi_hive_id"])),
    )


def _hive(told: Fact[Any]) -> Fact[str]:
    """The hive's number as the library writes it; zero is a card that is in none."""
    digits = "" if told.value is None else str(told.value).strip().lower()
    if digits and not digits.removeprefix("0x").strip("0"):
        return absent("no_hive")
    return plain_text(told)


def _peers(
    library: Any, gpus: Mapping[str, tuple[Any, AmdGpu]], answered: Callable[[], None]
) -> dict[str, tuple[str, ...]]:
    """By address, who is one hop away by xGMI; nothing of a hive in which some pair cannot say."""
    found: dict[str, list[str]] = {}
    silent: set[str] = set()
    for (one, (handle, gpu)), (other, (far, peer)) in permutations(gpus.items(), 2):
        hive = gpu.hive.value
        if hive is None or hive != peer.hive.value:
            continue
        way = ask(_way, library, handle, far).value
        answered()
        if way is None:
            silent.add(hive)
        elif way == (_XGMI, 1):
            found.setdefault(one, []).append(other)
    return {
        pci: tuple(ends) for pci, ends in found.items() if gpus[pci][1].hive.value not in silent
    }


def _way(library: Any, one: Any, other: Any) -> tuple[int, int]:
    """Of what kind the way between two GPUs is, and how many hops it has."""
    link = library.amdsmi_topo_get_link_type(one, other)
    return int(link["type"]), int(link["hops"])


def ask(call: Callable[..., Any], *arguments: Any) -> Fact[Any]:
    """One call as a fact."""
    try:
        told = call(*arguments)
        return unknown("amdsmi_error") if told is None else present(told)
    except Exception:
        # One class of the binding's own per kind of failure, in a module that may not be there.
        return unknown("amdsmi_error")
