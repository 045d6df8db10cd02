"""Which cards are in a simulated host now, where its topology file says how it left the factory?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nodeagent.protocol import Finding, Gpu, UuidSource
from nodeagent.topology.model import Topology

GONE = None
NAMELESS = ""


def with_cards(
    topology: Topology, cards: Mapping[str, str | None], addresses: Mapping[str, str]
) -> Topology:
    """The topology with other cards in it, or the same at other addresses.

    cards: by the GPU's number in the file its UUID now, empty where it cannot say it, and None
    where it is gone. addresses: by the same number where it is now. As discovery has it, a UUID
    that two cards say is believed of neither.
    """
    kept, findings = [], list(topology.findings)
    for gpu in topology.gpus:
        key = str(gpu.index)
        uuid = cards.get(key, gpu.uuid)
        if uuid is GONE:
            continue
        source = UuidSource.UNKNOWN if uuid == NAMELESS else gpu.uuid_source
        kept.append(
            replace(gpu, uuid=uuid or None, uuid_source=source, pci=addresses.get(key, gpu.pci))
        )
    doubled = {uuid for uuid, count in Counter(gpu.uuid for gpu in kept).items() if count > 1}
    for uuid in sorted(one for one in doubled if one):
        detail = "two GPUs have one UUID; neither is believed"
        findings.append(Finding("gpu_uuid_duplicate", detail, uuid))
    gpus = [_unbelieved(gpu) if gpu.uuid in doubled else gpu for gpu in kept]
    there = {gpu.pci for gpu in topology.gpus} - {gpu.pci for gpu in gpus}
    return replace(
        topology,
        gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)),
        nvlinks=tuple(link for link in topology.nvlinks if not {link.from_, link.to} & there),
        findings=tuple(findings),
    )


def _unbelieved(gpu: Gpu) -> Gpu:
    return replace(gpu, uuid=None, uuid_source=UuidSource.UNKNOWN)
