"""Does the next tenant get a slot only after proof that the last one's traces are gone?"""

from __future__ import annotations

from gpuaas.demo.faults import fault_clear, fault_set
from gpuaas.demo.story.leases import NODE
from gpuaas.demo.story.scene import PATIENCE_S, Scene


def lie(scene: Scene) -> None:
    """A host that does not clean and says it is done is not believed."""
    tell = scene.tell
    tell.chapter("A lying cleanup blocks the slots")
    held = scene.slots_of(NODE, "first-light")
    charged = scene.used(scene.acme, "h100-slot")
    tell.asked(
        f"the host is told to lie: nodeagent.simhost fault {NODE} --set lie_cleanup=missing_step"
    )
    fault_set(scene.root, NODE, "lie_cleanup=missing_step")
    out = scene.gpuaas(scene.acme, "allocation release first-light --yes --wait", code=9)
    tell.shown(out.rstrip().splitlines())
    shown = scene.acme.get(f"/allocations/{scene.leases['first-light']}")
    why = scene.acme.get(f"/allocations/{scene.leases['first-light']}/explain")["allocation"]
    tell.decided(f"{shown['state']}: {why['detail']}")
    tell.seen(f"what would help: {why['unblock']}")
    tell.check("it ends in cleanup_blocked", shown["state"] == "cleanup_blocked", shown["state"])
    slots = {slot["index"]: slot for slot in scene.slots(NODE)}
    claims = [slots[slot["index"]]["claim"] for slot in held]
    tell.check(
        "the capacity stays blocked, held by the platform",
        all(claim and claim["holder"] == "platform" for claim in claims),
        claims,
    )
    tell.check(
        "the tenant is charged no longer",
        scene.used(scene.acme, "h100-slot") == charged - 1000 * len(held),
        scene.used(scene.acme, "h100-slot"),
    )
    node = scene.node(NODE)
    tell.seen(f"{NODE} is {node['posture']}: {', '.join(c['code'] for c in node['conditions'])}")
    tell.check("nothing new may go there", not node["schedulable"] or node["slots_free"] == 0, node)


def repair(scene: Scene) -> None:
    """After the repair a new attempt brings a complete proof."""
    tell, name = scene.tell, "first-light"
    tell.chapter("The operator repairs it, and the proof is complete")
    fault_clear(scene.root, NODE)
    tell.asked(f"POST /allocations/{{{name}}}/actions/retry-cleanup {{reason: scrubber repaired}}")
    made = scene.operator.post(
        f"/allocations/{scene.leases[name]}/actions/retry-cleanup", {"reason": "scrubber repaired"}
    )
    scene.operator.client.operations.wait(str(made["id"]), timeout_s=PATIENCE_S)
    shown = scene.acme.get(f"/allocations/{scene.leases[name]}")
    proofs = [
        f"attempt {entry['facts']['attempt']} {entry['kind'].rsplit('.', 1)[1]}"
        for entry in scene.events(scene.operator, name)
        if entry["kind"].startswith("placement.cleanupproof")
    ]
    tell.seen(f"{name} is {shown['state']}; proofs: {', '.join(proofs)}")
    tell.check("it is released", shown["state"] == "released", shown["state"])
    tell.check(
        "each slot has a complete proof of the second attempt beside the incomplete first",
        proofs.count("attempt 1 incomplete") == 2 and proofs.count("attempt 2 complete") == 2,
        proofs,
    )


def reuse(scene: Scene) -> None:
    """Another tenant gets the very same slots."""
    tell = scene.tell
    tell.chapter("Another tenant gets the same slots")
    scene.settled(NODE)
    free = sorted(slot["index"] for slot in scene.slots(NODE) if not slot["claim"])
    tell.asked("lumen: POST /projects/default/allocations {sku: h100-slice, slots: 2}")
    scene.lease(scene.lumen, "second-light", "h100-slice", 2)
    got = sorted(slot["index"] for slot in scene.slots_of(NODE, "second-light"))
    tell.seen(f"second-light is active on slots {got} of {NODE}, which acme had before")
    tell.check("they are the same two slots", got == free, (got, free))


def suspend(scene: Scene) -> None:
    """A suspended tenant starts nothing new; what runs goes on."""
    tell = scene.tell
    tell.chapter("A tenant is suspended")
    tell.asked("POST /tenants/helix-genomics/actions/suspend {reason: invoice overdue}")
    tenant = scene.operator.post(
        "/tenants/helix-genomics/actions/suspend", {"reason": "invoice overdue"}
    )
    tell.seen(f"{tenant['name']} is {tenant['state']}")
    problem = scene.refusal(scene.helix, "a100-slice", 1)
    tell.decided(f"{problem.status} {problem.code}: {problem.detail}")
    tell.check("creating is refused tenant_suspended", problem.code == "tenant_suspended")
    still = scene.helix.get(f"/allocations/{scene.leases['folding-run']}")
    tell.check("what runs goes on", still["state"] == "active", still["state"])
    tenant = scene.operator.post("/tenants/helix-genomics/actions/resume", {"reason": "paid"})
    tell.check("and the suspension can be ended", tenant["state"] == "active", tenant["state"])
