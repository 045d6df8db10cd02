"""Which GPUs are joined by NVLink (or xGMI), directly or through NVSwitches?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodeagent.protocol import Gpu, NvLink
from nodeagent.topology.model import Draft
from nodeagent.topology.pci import address_key, normal_address

NVSWITCH_CLASS, CPU_CLASS = "068000", "068001"
# Where a file names an NVSwitch by a target that is no PCI address, all such links meet here.
ANY_NVSWITCH = "nvswitch"


@dataclass(frozen=True)
class RawLink:
    """A link as a file states it: source GPU's address, target text, its class, and its count."""

    source: str
    target: str | None
    target_class: str | None
    count: int | None


def resolve_links(draft: Draft, raw_links: Iterable[RawLink]) -> None:
    """Put usable links into the draft and a finding for each that is not, then set domains."""
    gpus = {gpu.pci for gpu in draft.gpus if gpu.pci is not None}
    nvswitches = {one.pci for one in draft.nvswitches if one.pci is not None}
    merged: dict[tuple[str, str], int | None] = {}
    for link in raw_links:
        target = _target(draft, link, gpus, nvswitches)
        if target is not None:
            key = (link.source, target)
            known = merged.get(key, 0)
            merged[key] = None if known is None or link.count is None else known + link.count
    draft.nvlinks.extend(_both_ways(merged))
    if not merged and draft.gpus:
        draft.find("nvlink_unknown", "no usable NVLink is described; the domain of GPUs is unknown")
    draft.gpus = with_domains(draft.gpus, draft.nvlinks)


def components(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each name, a representative shared by all names that the pairs connect."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for left, right in pairs:
        parent[root(left)] = root(right)
    return {name: root(name) for name in list(parent)}


def _both_ways(merged: Mapping[tuple[str, str], int | None]) -> list[NvLink]:
    """One entry per pair of devices: files list a link at either end, or only at one."""
    pairs: dict[tuple[str, str], int] = {}
    for (source, target), count in merged.items():
        key = (source, target) if source < target else (target, source)
        pairs[key] = max(pairs.get(key, 0), count or 0)
    return [NvLink(left, right, count or None) for (left, right), count in sorted(pairs.items())]


def _target(draft: Draft, link: RawLink, gpus: set[str], nvswitches: set[str]) -> str | None:
    address = normal_address(link.target)
    if address is not None and address == link.source:
        draft.find("nvlink_self", "an NVLink points at the GPU itself; not used", link.source)
        return None
    if address in gpus or address in nvswitches:
        return address
    target_class = link.target_class or ""
    if target_class.startswith(CPU_CLASS):
        draft.find("nvlink_to_cpu", "an NVLink goes to a CPU; not used for domains", link.source)
        return None
    if target_class.startswith(NVSWITCH_CLASS):
        return address or ANY_NVSWITCH
    draft.find(
        "nvlink_target_unknown", "an NVLink points at no device of this host; not used", link.source
    )
    return None


def with_domains(gpus: Sequence[Gpu], links: Iterable[NvLink]) -> list[Gpu]:
    """The GPUs with the domain that each is in, named `nvlink-0`, `nvlink-1` … in PCI order.

    A domain has two GPUs and more. One that a GPU has already, as a hive, stays.
    """
    joined = components((link.from_, link.to) for link in links)
    sizes: dict[str, int] = {}
    for gpu in gpus:
        if gpu.pci in joined:
            sizes[joined[gpu.pci]] = sizes.get(joined[gpu.pci], 0) + 1
    names: dict[str, str] = {}
    for gpu in sorted(gpus, key=lambda one: address_key(one.pci)):
        component = joined.get(gpu.pci or "")
        if component is not None and sizes[component] > 1:
            names.setdefault(component, f"nvlink-{len(names)}")
    return [
        replace(gpu, nvlink_domain=gpu.nvlink_domain or _domain(gpu.pci, joined, names))
        for gpu in gpus
    ]


def _domain(pci: str | None, joined: Mapping[str, str], names: Mapping[str, str]) -> str | None:
    return names.get(joined.get(pci or "", ""))
