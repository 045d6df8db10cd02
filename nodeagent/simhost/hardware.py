"""What hardware does a simulated host have? A topology file, plus what the file cannot know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, write_atomic, write_json
from nodeagent.protocol import Finding, Gpu, NvLink, PartKind, TopologyReport, UuidSource
from nodeagent.simhost.cards import with_cards
from nodeagent.simhost.state import gpu_uuid
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.load import load_topology
from nodeagent.topology.model import Topology
from nodeagent.topology.nvlink import ANY_NVSWITCH, with_domains
from nodeagent.topology.slots import topology_report
from nodeagent.topology.xml import MAX_BYTES

CONFIG_FILE, TOPOLOGY_FILE = "config.json", "topology.xml"
_NOW_KNOWN = {"gpu_uuid_unknown"}
_NO_LINKS = "nvlink_unknown"
MOST_LINKS = 64
"""Links between two devices that a description may have."""


class HardwareError(ValueError):
    """A simulated host that cannot be made as described."""


@dataclass(frozen=True)
class HardwareConfig:
    """A host's description. The facts are used only where the topology file knows none.

    file_uuids: use GPU UUIDs of the file. Off by default: two hosts made from one file would
    otherwise claim to have the same physical devices. part_kinds: the parts of GPUs it can make.
    cards, addresses: what is otherwise than in the file by now (nodeagent.simhost.cards).
    calls_itself: the name that the host tells, where it is not the one that it was given.
    nvlinks: [GPU, GPU, links] of the file's numbers; nvswitch_links: how many each GPU has to
    switches. Both only where the file describes no link.
    """

    name: str
    gpu_model: str | None = None
    gpu_memory_bytes: int | None = None
    numa_memory_bytes: int | None = None
    file_uuids: bool = False
    intended_use: str | None = None
    part_kinds: tuple[str, ...] = tuple(PartKind)
    cards: Mapping[str, str | None] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    calls_itself: str = ""
    nvlinks: Sequence[Sequence[int]] = ()
    nvswitch_links: int = 0


def create_host(folder: Path, config: HardwareConfig, topology: Path) -> None:
    """Make a host's folder with its own copy of the topology file; an existing one keeps its own.

    Raises HardwareError when the file is no usable topology.
    """
    if (folder / CONFIG_FILE).exists():
        return
    try:
        with topology.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        _linked(load_topology(content), config)
    except (OSError, TopologyError) as error:
        raise HardwareError(f"host {config.name}: {error}") from error
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(folder / TOPOLOGY_FILE, content)
    # Last, since its presence means that the host is complete.
    write_json(folder / CONFIG_FILE, asdict(config))


def read_config(folder: Path) -> HardwareConfig:
    """The description of an existing host. Raises HardwareError."""
    stored = read_json(folder / CONFIG_FILE)
    if not isinstance(stored, dict):
        raise HardwareError(f"{folder.name} is no simulated host")
    return HardwareConfig(**stored)


def parse_config(entry: Mapping[str, Any]) -> HardwareConfig:
    """The description in a fleet's spec. Raises HardwareError."""
    known = set(HardwareConfig.__dataclass_fields__)
    try:
        return HardwareConfig(**{key: value for key, value in entry.items() if key in known})
    except TypeError as error:
        raise HardwareError(f"a host in the spec is not described well: {error}") from error


def read_hardware(folder: Path, config: HardwareConfig) -> TopologyReport:
    """The host's wiring as its agent reports it. Raises TopologyError or OSError."""
    topology = _linked(_parsed((folder / TOPOLOGY_FILE).read_bytes()), config)
    known = with_cards(_with_facts(topology, config), config.cards, config.addresses)
    return topology_report(known, config.calls_itself or config.name)


def change_card(folder: Path, index: int, *, uuid: str | None, pci: str = "") -> HardwareConfig:
    """Another card in this place of the file, the same elsewhere, or none (uuid None).

    The host's next discovery tells. Raises HardwareError.
    """
    config = read_config(folder)
    count = len(_parsed((folder / TOPOLOGY_FILE).read_bytes()).gpus)
    if not 0 <= index < count:
        raise HardwareError(f"its file has GPUs 0 to {count - 1}")
    cards, addresses = {**config.cards, str(index): uuid}, {**config.addresses}
    if pci:
        addresses[str(index)] = pci
    changed = replace(config, cards=cards, addresses=addresses)
    write_json(folder / CONFIG_FILE, asdict(changed))
    return changed


def restore_card(folder: Path, index: int) -> HardwareConfig:
    """The card that the file has is back in its place. Raises HardwareError."""
    config = read_config(folder)
    cards = {key: value for key, value in config.cards.items() if key != str(index)}
    addresses = {key: value for key, value in config.addresses.items() if key != str(index)}
    changed = replace(config, cards=cards, addresses=addresses)
    write_json(folder / CONFIG_FILE, asdict(changed))
    return changed


def rename_host(folder: Path, name: str) -> HardwareConfig:
    """The host tells another name from its next discovery on. Raises HardwareError."""
    changed = replace(read_config(folder), calls_itself=name)
    write_json(folder / CONFIG_FILE, asdict(changed))
    return changed


@lru_cache(maxsize=32)
def _parsed(content: bytes) -> Topology:
    """Hosts made from one file share its parsed form."""
    return load_topology(content)


def _linked(topology: Topology, config: HardwareConfig) -> Topology:
    """The topology with the links that the description has. Raises HardwareError."""
    if topology.nvlinks or not (config.nvlinks or config.nvswitch_links):
        return topology
    links = []
    pci = {gpu.index: gpu.pci for gpu in topology.gpus if gpu.pci}
    for link in config.nvlinks:
        one, other, count = link if len(link) == 3 else (-1, -1, 0)
        if one == other or one not in pci or other not in pci or not 0 < count <= MOST_LINKS:
            raise HardwareError(f"nvlinks {list(link)}: two of its GPUs, and 1 to {MOST_LINKS}")
        links.append(NvLink(pci[one], pci[other], count))
    if config.nvswitch_links:
        if not 0 < config.nvswitch_links <= MOST_LINKS:
            raise HardwareError(f"nvswitch_links is 1 to {MOST_LINKS}")
        links += [NvLink(one, ANY_NVSWITCH, config.nvswitch_links) for one in pci.values()]
    findings = [one for one in topology.findings if one.code != _NO_LINKS]
    findings.append(Finding("simulated_links", "simulated, since the file describes no NVLink"))
    return replace(
        topology,
        gpus=tuple(with_domains(topology.gpus, links)),
        nvlinks=tuple(links),
        findings=tuple(findings),
    )


def _with_facts(topology: Topology, config: HardwareConfig) -> Topology:
    known = set(_NOW_KNOWN)
    if config.gpu_model is not None:
        known.add("gpu_model_unknown")
    if config.gpu_memory_bytes is not None:
        known.add("gpu_memory_unknown")
    if config.numa_memory_bytes is not None:
        known.add("numa_memory_unknown")
    added = sorted(code for code in known if any(one.code == code for one in topology.findings))
    findings = [one for one in topology.findings if one.code not in known]
    if added:
        detail = f"simulated, since the file does not say: {json.dumps(added)}"
        findings.append(Finding("simulated_facts", detail))
    return replace(
        topology,
        gpus=tuple(_gpu(gpu, config) for gpu in topology.gpus),
        numa=tuple(
            replace(node, memory_bytes=node.memory_bytes or config.numa_memory_bytes)
            for node in topology.numa
        ),
        findings=tuple(findings),
    )


def _gpu(gpu: Gpu, config: HardwareConfig) -> Gpu:
    from_file = config.file_uuids and gpu.uuid is not None
    return replace(
        gpu,
        uuid=gpu.uuid if from_file else gpu_uuid(config.name, gpu.pci, gpu.index),
        uuid_source=gpu.uuid_source if from_file else UuidSource.SIMULATED,
        model=gpu.model or config.gpu_model,
        memory_bytes=gpu.memory_bytes or config.gpu_memory_bytes,
    )
