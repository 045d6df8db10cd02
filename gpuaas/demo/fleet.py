"""How do the simulated hosts come into the fleet?  Named, invited, discovered, approved."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gpuaas.cli.problems import Json
from gpuaas.demo.doing import Session, until
from gpuaas.demo.world import HOSTS, HostPlan, family_of
from gpuaas.embedded.files import private_folder, write_private

GIB = 2**30
JOIN_S = 60.0
INVITABLE = "enrolling"


def hosts_folder(root: Path) -> Path:
    """Where the disks of the simulated hosts are, in a data folder."""
    return root / "hosts"


def spec_write(root: Path) -> Path:
    """Write what the fleet is made of; hosts that exist keep what they have."""
    entries = [
        {
            "name": host.name,
            "topology": str(family.topology_path),
            "gpu_model": family.gpu_model,
            "gpu_memory_bytes": family.gpu_memory_gib * GIB,
            "numa_memory_bytes": family.numa_memory_gib * GIB,
            "nvlinks": family.nvlinks,
            "nvswitch_links": family.nvswitch_links,
            "intended_use": "slices" if host.intended == "slices" else None,
        }
        for host in HOSTS
        for family in [family_of(host)]
    ]
    path = private_folder(hosts_folder(root)) / "spec.json"
    write_private(path, json.dumps(entries, indent=1))
    return path


def folders_made(root: Path) -> bool:
    """Whether the fleet has made every host's folder."""
    return all((hosts_folder(root) / host.name / "config.json").exists() for host in HOSTS)


def host_name(operator: Session, host: HostPlan) -> Json:
    """Announce the host, unless it is known; its state."""
    known = operator.found(f"/nodes/{host.name}")
    return known or operator.post(
        "/nodes",
        {
            "name": host.name,
            "pool": family_of(host).pool,
            "intended": host.intended,
            "zone": host.zone,
            "block": host.block,
            "rack": host.rack,
        },
    )


def host_invite(operator: Session, host: HostPlan, root: Path) -> None:
    """Make a one-time join token and leave it on the host's disk, as an installer would."""
    made = operator.post(f"/nodes/{host.name}/join-tokens", {"ttl_s": 900})
    write_private(hosts_folder(root) / host.name / "join-token", str(made["token"]))


def discovered(operator: Session, hosts: Iterable[HostPlan], timeout_s: float = JOIN_S) -> None:
    """Wait until each has joined and said what it is made of. Raises NotSeen."""
    for host in hosts:
        until(
            f"{host.name} to have joined and been discovered",
            lambda host=host: operator.get(f"/nodes/{host.name}"),  # type: ignore[misc]  # bound now
            lambda seen: seen["state"] not in ("enrolling", "inspecting"),
            timeout_s=timeout_s,
            show=lambda seen: f"state {seen['state']}, last seen {seen['last_seen_at']}",
        )


def host_approve(operator: Session, host: HostPlan, reason: str) -> Json:
    """Approve the slots that were discovered; what is approved already stays so."""
    node = operator.get(f"/nodes/{host.name}")
    if node["state"] != "verifying":
        return node
    return operator.post(
        f"/nodes/{host.name}/actions/approve", {"reason": reason, "family": host.family}
    )


def host_cut(operator: Session, host: HostPlan, reason: str) -> int:
    """Cut the slots that the plan sells in parts; what is cut already stays so. How many."""
    for index, cut in host.cuts:
        operator.post(
            f"/nodes/{host.name}/actions/cut",
            {"reason": reason, "slot_index": index, "cut": cut},
        )
    return len(host.cuts)


def heard(operator: Session, hosts: Iterable[HostPlan], timeout_s: float = JOIN_S) -> None:
    """Wait until each host has reported how it is. Raises NotSeen."""
    for host in hosts:
        until(
            f"{host.name} to say how it is",
            lambda host=host: operator.get(f"/nodes/{host.name}"),  # type: ignore[misc]  # bound now
            lambda seen: seen["health"] != "unknown",
            timeout_s=timeout_s,
            show=lambda seen: f"{seen['state']}, health {seen['health']}",
        )
