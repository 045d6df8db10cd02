"""Do hosts come in by invitation only, and as what they are?"""

from __future__ import annotations

from collections import Counter

from gpuaas.demo import fleet, world
from gpuaas.demo.story.scene import Scene
from gpuaas.demo.world import HostPlan

LATER = ("h100-02", "h100-03")
"""Hosts that the operator approves later in the story."""

FACTS = {
    # file: NUMA nodes, GPUs, NVSwitches, and the slots by what they have of a NIC
    "azure-ndv5-topo.xml": (2, 8, 0, {"exclusive": 8}),
    "azure-ndv4-topo.xml": (4, 8, 0, {"exclusive": 8}),
    "azure-ncv4-topo.xml": (4, 4, 0, {"none": 4}),
    "aws-p4d-24xl-topo.xml": (2, 8, 0, {"shared": 8}),
    "hwloc-nvidiaDGX2.xml": (2, 16, 12, {"unknown": 16}),
}


def join(scene: Scene) -> None:
    """Twelve hosts join and say what they are made of."""
    tell, operator = scene.tell, scene.operator
    tell.chapter("Twelve hosts are invited, join, and are discovered")
    tell.asked(
        f"{operator.email} names {len(world.HOSTS)} hosts and leaves a one-time join token on "
        "each: POST /nodes, POST /nodes/{name}/join-tokens"
    )
    for host in world.HOSTS:
        fleet.host_name(operator, host)
        fleet.host_invite(operator, host, scene.root)
    fleet.discovered(operator, world.HOSTS)
    rows = [("host", "state", "from file", "NUMA", "GPUs", "NVSwitches", "slots", "NIC of a slot")]
    for host in _one_of_each():
        file = world.family_of(host).topology
        wiring = operator.get(f"/nodes/{host.name}/topology")
        slots = scene.slots(host.name)
        modes = Counter(slot["nic_mode"] for slot in slots)
        found = (
            len(wiring["numa"]),
            len(wiring["gpus"]),
            len(wiring["nvswitches"]),
            dict(modes),
        )
        rows.append(
            (
                host.name,
                scene.node(host.name)["state"],
                file,
                *map(str, found[:3]),
                str(len(slots)),
                ", ".join(modes),
            )
        )
        if found != FACTS[file]:
            tell.table(rows)
            tell.check(f"{file} is read as {FACTS[file]}", False, found)
    tell.table(rows)
    tell.check("each of the five topology files is read as what it describes", True)
    states = Counter(node["state"] for node in operator.items("/nodes"))
    tell.check(
        "all twelve joined by their own key and wait for approval",
        states == {"verifying": 12},
        dict(states),
    )
    problem = scene.refusal(scene.acme, "h100-slice", 1)
    tell.decided(f"acme asks already: {problem.status} {problem.code}: {problem.detail}")
    tell.check(
        "nothing that was merely discovered is leased", problem.code == "never_fits", problem.code
    )


def approve(scene: Scene) -> None:
    """The operator approves the candidates; only those are scheduled from here on."""
    tell = scene.tell
    tell.chapter("The operator approves what was discovered")
    now = [host for host in world.HOSTS if host.name not in LATER]
    tell.asked("POST /nodes/{name}/actions/approve for " + ", ".join(host.name for host in now))
    for host in now:
        fleet.host_approve(scene.operator, host, "burn-in passed")
    for host in now:
        scene.settled(host.name)
    node = scene.node("h100-01")
    tell.seen(f"h100-01 is {node['state']}, {node['posture']}, {node['slots_free']} slots free")
    tell.check("an approved host is fully available", node["posture"] == "fully_available", node)
    lines = scene.gpuaas(scene.acme, "offer").rstrip().splitlines()
    tell.shown(lines[:12])
    tell.check(
        "the catalogue offers what was approved, and no host's name",
        any("h100-slice" in line for line in lines)
        and not any(host.name in line for line in lines for host in world.HOSTS),
        lines,
    )


def _one_of_each() -> list[HostPlan]:
    seen: dict[str, HostPlan] = {}
    for host in world.HOSTS:
        seen.setdefault(host.family, host)
    return list(seen.values())
