"""Which hosts join in the benchmark of agents?  Announced and invited by the services.

    python -m benchmarks.agents_world COUNT POOL FOLDER

writes FOLDER/hosts.json, from which ``nodeagent.simfleet`` makes the simulated hosts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import django

django.setup()

from benchmarks.world import OPERATOR  # noqa: E402  # the settings come first
from gpuaas.demo.world import TOPOLOGY_FOLDER  # noqa: E402
from placement.services.agents import join_token_create  # noqa: E402
from placement.services.nodes import node_create  # noqa: E402

TOPOLOGY = TOPOLOGY_FOLDER / "azure-ncv4-topo.xml"
MODEL = "A100-PCIE-80GB"
MEMORY = 80 * 2**30


def invited(count: int, pool: str) -> list[dict[str, object]]:
    """So many hosts of four GPUs, each with a token to join with."""
    hosts: list[dict[str, object]] = []
    for number in range(count):
        node = node_create(name=f"agent-{number:04}", pool=pool, actor=OPERATOR)
        _, token = join_token_create(node_id=node.pk, actor=OPERATOR)
        hosts.append({
            "name": node.name, "topology": str(TOPOLOGY), "gpu_model": MODEL,
            "gpu_memory_bytes": MEMORY, "numa_memory_bytes": MEMORY, "join_token": token,
        })  # fmt: skip
    return hosts


def main() -> None:
    """Invite, and write the spec."""
    count, pool, folder = sys.argv[1:]
    spec = Path(folder) / "hosts.json"
    spec.touch(mode=0o600)
    spec.write_text(json.dumps(invited(int(count), pool)), encoding="utf-8")


if __name__ == "__main__":
    main()
