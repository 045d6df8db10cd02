"""Which candidate slots does a host's wiring make?

One slot per GPU, numbered as the GPUs. The CPUs of a NUMA node are divided among its GPUs without
overlap and without rest, whole cores at a time where siblings are known or can be told; its memory
is divided evenly and rounded down to 2 MiB. Where CPUs or memory are unknown, or too few to divide,
the slot says null and a finding says why.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nodeagent.protocol import (
    SCHEMA_VERSION,
    CandidateSlot,
    DeviceMode,
    Finding,
    Gpu,
    NumaNode,
    TopologyReport,
    TopologySource,
)
from nodeagent.protocol.cpus import cpu_list, cpu_set
from nodeagent.topology.cpus import divide, sibling_units
from nodeagent.topology.model import Topology
from nodeagent.topology.pairing import Pairing, Share, pair

_PAGE = 2 * 1024 * 1024


@dataclass(frozen=True)
class Derived:
    """Slots in order of their index, and what was found while making them."""

    slots: tuple[CandidateSlot, ...]
    findings: tuple[Finding, ...]


def derive_slots(topology: Topology) -> Derived:
    """The candidate slots of a host."""
    findings: list[Finding] = []
    gpus, switches, joined = topology.gpus, topology.switches, topology.joined
    nics = pair(gpus, topology.nics, switches, topology.apart, joined)
    nvmes = pair(gpus, topology.nvmes, switches, joined=joined)
    findings.extend(_pairing_findings(topology, nics, nvmes))
    cpusets, memories = _divide_numa(topology, findings)
    slots = tuple(
        _slot(gpu, nics.shares[gpu.index], nvmes.shares[gpu.index], cpusets, memories)
        for gpu in topology.gpus
    )
    return Derived(slots, tuple(findings))


def topology_report(topology: Topology, hostname: str) -> TopologyReport:
    """The result of a discovery, as it goes over the wire."""
    derived = derive_slots(topology)
    return TopologyReport(
        schema=SCHEMA_VERSION,
        source=TopologySource(topology.source_format, topology.file_sha256),
        hostname=hostname,
        numa=topology.numa,
        switches=topology.switches,
        gpus=topology.gpus,
        nics=topology.nics,
        nvmes=topology.nvmes,
        nvswitches=topology.nvswitches,
        nvlinks=topology.nvlinks,
        findings=(*topology.findings, *derived.findings)[:2048],
        slots=derived.slots,
        facts=topology.facts,
    )


def _slot(
    gpu: Gpu,
    nic: Share,
    nvme: Share,
    cpusets: dict[int, str],
    memories: dict[int, int],
) -> CandidateSlot:
    return CandidateSlot(
        index=gpu.index,
        gpu_uuid=gpu.uuid,
        gpu_index=gpu.index,
        numa=gpu.numa,
        switch=gpu.switch,
        cpuset=cpusets.get(gpu.index),
        memory_bytes=memories.get(gpu.index),
        nic=nic.devices[0] if nic.devices else None,
        nic_mode=nic.mode,
        nvme=nvme.devices[0] if nvme.devices else None,
        nvme_mode=nvme.mode,
        nvlink_domain=gpu.nvlink_domain,
        extra_nics=nic.devices[1:],
        extra_nvmes=nvme.devices[1:],
    )


def _divide_numa(
    topology: Topology, findings: list[Finding]
) -> tuple[dict[int, str], dict[int, int]]:
    """CPU list and memory bytes by GPU index, where known."""
    members: dict[int, list[Gpu]] = defaultdict(list)
    for gpu in topology.gpus:
        if gpu.numa is not None:
            members[gpu.numa].append(gpu)
    cpusets: dict[int, str] = {}
    memories: dict[int, int] = {}
    for node in topology.numa:
        gpus = members[node.id]
        if not gpus:
            continue
        for gpu, cpus in zip(gpus, _cpu_parts(topology, node, len(gpus), findings), strict=False):
            cpusets[gpu.index] = cpus
        share = (node.memory_bytes or 0) // len(gpus) // _PAGE * _PAGE
        if share:
            memories.update((gpu.index, share) for gpu in gpus)
    return cpusets, memories


def _cpu_parts(
    topology: Topology, node: NumaNode, parts: int, findings: list[Finding]
) -> list[str]:
    if node.cpuset is None:
        return []
    cpus = cpu_set(node.cpuset)
    divided = divide(sibling_units(cpus, topology.cores.get(node.id, ())), parts)
    if divided is None:
        detail = f"{len(cpus)} CPUs of NUMA node {node.id} cannot be divided among {parts} GPUs"
        findings.append(Finding("cpus_too_few", detail))
        return []
    return [cpu_list(part) for part in divided]


def _pairing_findings(topology: Topology, nics: Pairing, nvmes: Pairing) -> list[Finding]:
    found: list[Finding] = []
    outside = {nic.id for nic in topology.nics if nic.pci is None}
    for code, spare in (("nic_spare", nics.spare), ("nvme_spare", nvmes.spare)):
        found.extend(
            Finding(code, "belongs to no slot and stays with the host", device)
            for device in spare
            if device not in outside
        )
    for code, what, pairing in (
        ("nic_shared", "NIC", nics),
        ("nvme_shared", "NVMe", nvmes),
    ):
        shared = sorted(
            {one.devices[0] for one in pairing.shares.values() if one.mode is DeviceMode.SHARED}
        )
        found.extend(
            Finding(code, f"this {what} is beside several GPUs; given to none alone", device)
            for device in shared
        )
    for code, what, pairing in (
        ("nic_unknown", "NICs", nics),
        ("nvme_unknown", "NVMe devices", nvmes),
    ):
        unknown = sum(one.mode is DeviceMode.UNKNOWN for one in pairing.shares.values())
        if unknown:
            found.append(Finding(code, f"{what} of {unknown} slots are unknown, not absent"))
    return found
