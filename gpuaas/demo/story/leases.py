"""Are slots leased whole, on one node, within the envelope, or refused with the reason?"""

from __future__ import annotations

from gpuaas.cli.problems import Json
from gpuaas.demo import fleet, world
from gpuaas.demo.story.hosts import LATER
from gpuaas.demo.story.scene import Scene, gates_line, money

NODE = "h100-01"


def two_slots(scene: Scene) -> None:
    """A tenant leases two slots from the command line."""
    tell = scene.tell
    tell.chapter("Acme leases two slots")
    plan = scene.acme.post("/projects/default/allocations/plan", {"sku": "h100-slice", "slots": 2})
    tell.decided(
        f"the plan, which changes nothing: it fits, {money(plan['price_hour_micro'])} "
        f"{plan['currency']} an hour, envelope {plan['envelope']['before'] / 1000:g} to "
        f"{plan['envelope']['after'] / 1000:g} of {plan['envelope']['limit'] / 1000:g}"
    )
    out = scene.gpuaas(
        scene.acme,
        "allocation create --sku h100-slice --slots 2 --name first-light --ssh-key desktop --wait",
    )
    tell.shown(out.rstrip().splitlines())
    lease = next(row for row in scene.acme.items("/allocations") if row["name"] == "first-light")
    scene.leases["first-light"] = lease["id"]
    shown = scene.acme.get(f"/allocations/{lease['id']}")
    tell.check("it is active", shown["state"] == "active", shown["state"])
    tell.check(
        "the answer says how to get in, and not on which host",
        bool(shown["connection"]["command"]) and shown["node"] is None,
        shown["connection"],
    )
    why = scene.acme.get(f"/allocations/{lease['id']}/explain")
    tell.decided(f"{why['verdict']}: {gates_line(why['gates'])}")
    slots = scene.slots_of(NODE, "first-light")
    numas = sorted({slot["numa"] for slot in slots})
    tell.seen(f"slots {_indices(slots)} of {NODE}, NUMA node {numas}, a NIC each")
    tell.check("two claims on one node, on one NUMA node", len(slots) == 2 and len(numas) == 1)
    tell.check(
        "every slot has a NIC that it shares with nobody",
        {slot["nic_mode"] for slot in slots} == {"exclusive"},
    )
    kinds = [entry["kind"] for entry in scene.events(scene.acme, "first-light")]
    tell.seen("its timeline: " + ", ".join(kind.split(".", 1)[1] for kind in kinds))
    tell.check(
        "placed, provisioning and active are each recorded once",
        all(kinds.count(f"placement.allocation.{e}") == 1 for e in ("place", "activate")),
        kinds,
    )


def the_rest(scene: Scene) -> None:
    """A second tenant takes what is left of that node."""
    tell = scene.tell
    tell.chapter("Helix takes the rest of that node")
    tell.asked("POST /projects/default/allocations {sku: h100-slice, slots: 6}")
    lease = scene.lease(scene.helix, "folding-run", "h100-slice", 6)
    node = scene.node(NODE)
    tell.seen(f"{lease['name']} is {lease['state']}; {NODE} is {node['posture']}")
    owners = sorted({slot["claim"]["tenant"]["name"] for slot in scene.slots(NODE)})
    tell.check("two tenants share the node, and no slot", len(owners) == 2, owners)
    tell.check("its posture is fully_allocated", node["posture"] == "fully_allocated", node)
    foreign = scene.helix.found(f"/allocations/{scene.leases['first-light']}")
    tell.check("to helix, the lease of acme is as if it did not exist", foreign is None)


def no_room(scene: Scene) -> None:
    """A request that fits nowhere is refused, and nothing is written but the refusal."""
    tell = scene.tell
    tell.chapter("A request that fits nowhere is refused")
    before = _standing(scene)
    tell.asked("lumen: POST /projects/default/allocations {sku: h100-slice, slots: 1}")
    problem = scene.refusal(scene.lumen, "h100-slice", 1)
    tell.decided(f"{problem.status} {problem.code}: {problem.detail}")
    tell.seen(f"what would help: {problem.unblock}")
    tell.check("the code is sku_unavailable", problem.code == "sku_unavailable", problem.code)
    tell.check("it says that the same request may work later", problem.retryable)
    after = _standing(scene)
    tell.check("no allocation, claim, charge or task was made", before == after, (before, after))
    request = str(problem.facts.get("request", ""))
    why = scene.lumen.get(f"/admission-requests/{request}/explain")
    tell.seen(f"the decision is kept: {gates_line(why['gates'])}")
    tell.check("only the last gate, capacity, said no", _refusers(why) == ["capacity"], why)


def too_much(scene: Scene) -> None:
    """A request over its envelope is refused with the numbers, whatever is free."""
    tell = scene.tell
    tell.chapter("A request over its envelope is refused with the numbers")
    tell.asked("lumen: POST /projects/default/allocations {sku: h100-slice, slots: 4}")
    problem = scene.refusal(scene.lumen, "h100-slice", 4)
    facts = problem.facts
    tell.decided(f"{problem.status} {problem.code}: {problem.detail}")
    tell.check("the code is envelope_exceeded", problem.code == "envelope_exceeded", problem.code)
    numbers = {name: facts.get(name) for name in ("asked_milli", "used_milli", "limit_milli")}
    tell.check(
        "asked 4000, held 0, limit 2000 thousandths of a slot",
        numbers == {"asked_milli": 4000, "used_milli": 0, "limit_milli": 2000},
        numbers,
    )
    why = scene.lumen.get(f"/admission-requests/{facts.get('request')}/explain")
    tell.check("authority said no before capacity was looked at", _refusers(why) == ["quota"], why)


def waiting(scene: Scene) -> None:
    """A request that waits is placed as soon as there is room."""
    tell = scene.tell
    tell.chapter("A request that waits is placed when hosts are approved")
    tell.asked("helix: POST /projects/default/allocations {h100-slice, slots: 2, wait: true}")
    made = scene.helix.post(
        "/projects/default/allocations",
        {"sku": "h100-slice", "slots": 2, "wait": True, "name": "patient"},
    )
    asked = next(r for r in scene.helix.items("/admission-requests") if r["name"] == "patient")
    tell.decided(f"{asked['state']}: {asked['reason']}: {asked['detail']}")
    tell.check("it is queued", asked["state"] == "queued", asked["state"])
    tell.asked("the operator approves " + " and ".join(LATER))
    for host in world.HOSTS:
        if host.name in LATER:
            fleet.host_approve(scene.operator, host, "burn-in passed")
    lease = scene.awaited(scene.helix, "patient", str(made["id"]))
    tell.seen(f"patient is {lease['state']} on {scene.place('patient')}")
    tell.check("nobody asked twice", lease["state"] == "active", lease["state"])


def whole_node(scene: Scene) -> None:
    """One tenant takes a host for itself."""
    tell = scene.tell
    tell.chapter("Acme takes a whole node")
    for name in LATER:
        scene.settled(name)
    tell.asked("POST /projects/default/allocations {sku: h100-node}")
    lease = scene.lease(scene.acme, "whole-host", "h100-node")
    place = scene.place("whole-host")
    node = scene.node(place)
    tell.seen(f"{lease['name']} is {lease['state']} on {place}: {node['posture']}")
    tell.check("its posture is exclusive_baremetal", node["posture"] == "exclusive_baremetal")
    tell.check(
        "one claim covers the whole host, where nobody else was",
        {slot["claim"]["allocation"] for slot in scene.slots(place)} == {lease["id"]}
        and place not in (NODE, scene.place("patient")),
        place,
    )
    tell.check("it is charged as eight slots", scene.used(scene.acme, "h100-slot") == 10_000)


def drain(scene: Scene) -> None:
    """A drain keeps what runs and takes nothing new."""
    tell = scene.tell
    tell.chapter("A drain keeps existing work and takes no new")
    lease = scene.lease(scene.lumen, "render", "a100-slice", 2)
    node = scene.place("render")
    tell.asked(f"POST /nodes/{node}/actions/drain {{reason: firmware update}}; render runs there")
    shown = scene.operator.post(f"/nodes/{node}/actions/drain", {"reason": "firmware update"})
    tell.seen(f"{node} is {shown['posture']}, {shown['slots_total'] - 2} of its slots are unused")
    tell.check("its posture is draining", shown["posture"] == "draining", shown["posture"])
    tell.asked("helix: POST /projects/default/allocations {sku: a100-slice, slots: 2}")
    scene.lease(scene.helix, "search", "a100-slice", 2)
    place = scene.place("search")
    tell.seen(f"search is placed on {place}")
    tell.check("new work goes elsewhere", place != node, place)
    still = scene.lumen.get(f"/allocations/{lease['id']}")
    tell.check(
        "what ran there runs on",
        (still["state"], scene.node(node)["posture"]) == ("active", "draining"),
        still["state"],
    )
    shown = scene.operator.post(f"/nodes/{node}/actions/undrain", {"reason": "update is done"})
    tell.check("after the drain it takes work again", shown["posture"] == "partially_allocated")


def _standing(scene: Scene) -> Json:
    tasks = {
        host.name: len(scene.operator.items(f"/nodes/{host.name}/tasks"))
        for host in world.HOSTS
        if host.family == "h100-8"
    }
    return {
        "allocations": len(scene.lumen.items("/allocations")),
        "claims": sum(bool(slot["claim"]) for slot in scene.slots(NODE)),
        "charged": scene.used(scene.lumen, "h100-slot"),
        "tasks": tasks,
    }


def _refusers(why: Json) -> list[str]:
    return [gate["gate"] for gate in why["gates"] if not gate["passed"]]


def _indices(slots: list[Json]) -> str:
    return " and ".join(str(slot["index"]) for slot in slots)


PARTED = "a100-02"


def part_of_a_gpu(scene: Scene) -> None:
    """An operator cuts a slot; a tenant whose tier allows it leases a seventh of its GPU."""
    tell = scene.tell
    tell.chapter("A part of one GPU is leased, and proven gone")
    scene.settled(PARTED)
    slot = next(slot for slot in scene.slots(PARTED) if slot["display_state"] == "free")
    tell.asked(f"POST /nodes/{PARTED}/actions/cut {{slot_index: {slot['index']}, cut: mig}}")
    scene.operator.post(
        f"/nodes/{PARTED}/actions/cut",
        {"reason": "small jobs", "slot_index": slot["index"], "cut": "mig"},
    )
    lease = scene.lease(scene.lumen, "thumbnails", "a100-1g")
    found = scene.slots(PARTED)[slot["index"]]
    tell.seen(f"{lease['name']} is {lease['state']}: {[part['part'] for part in found['parts']]}")
    tell.check(
        "it holds one MIG instance, and the rest of the GPU stays free",
        [part["part"] for part in found["parts"]] == ["1g.10gb@6:1"] and found["free_milli"] == 875,
        found,
    )
    problem = scene.acme.refused(
        "/projects/default/allocations", {"sku": "a100-1g", "name": "no part"}
    )
    code = problem.code if problem else "admitted"
    tell.check("a tier that promises a GPU refuses a part", code == "sharing_not_eligible", code)
    made = scene.lumen.client.allocations.release(lease["id"], reason="done")
    scene.lumen.client.operations.wait(str(made["id"]), timeout_s=60.0)
    after = scene.slots(PARTED)[slot["index"]]
    tell.check("after its release all of the GPU is free", after["free_milli"] == 1000, after)
