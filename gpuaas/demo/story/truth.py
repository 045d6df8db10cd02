"""Are the four truths kept apart and aged, and does the record of all this hold?"""

from __future__ import annotations

from gpuaas.cli.problems import Json
from gpuaas.demo.doing import until
from gpuaas.demo.faults import fault_clear, fault_set
from gpuaas.demo.story.leases import NODE
from gpuaas.demo.story.scene import PATIENCE_S, Scene

FOUR = ("desired", "observed", "executing", "projected")
OLD_S = 8.0
"""The projection is refreshed every five seconds; older than this means that nobody does."""


def four_states(scene: Scene) -> None:
    """A host for slices lost a prerequisite, cleans up, and its page is old: all at once."""
    tell = scene.tell
    tell.chapter("Four states, each with its age")
    before = _settled_projection(scene)
    tell.asked("the worker is stopped, so that nobody refreshes projections; API and hosts go on")
    scene.stop_part("worker")
    tell.asked(f"{NODE}, meant for slices, loses vfio-pci and becomes slow")
    fault_set(scene.root, NODE, "vfio_missing=true", "slow_s=3")
    tell.asked("lumen: POST /allocations/{second-light}/actions/release")
    lease = scene.leases["second-light"]
    scene.lumen.client.allocations.release(lease, reason="done")
    node = until(
        "the host to be seen without vfio-pci, cleaning up, with an old projection",
        lambda: scene.node(NODE),
        _all_at_once,
        timeout_s=PATIENCE_S,
        show=lambda seen: {name: seen["states"][name]["value"] for name in FOUR},
    )
    _show(scene, node, f"GET /nodes/{NODE}")
    states = node["states"]
    tell.check("desired: ready, for slices", states["desired"]["value"] == "ready, for slices")
    tell.check("observed: a prerequisite is missing", states["observed"]["drift"])
    tell.check(
        "executing: the cleanup, at a named step",
        states["executing"]["value"].startswith("slice.vm_release")
        and states["executing"]["detail"] != "",
        states["executing"],
    )
    tell.check(
        f"projected: still {before}, older than its period, and marked as drift",
        states["projected"]["value"] == before and states["projected"]["drift"],
        states["projected"],
    )
    moments = [states[name]["as_of"] for name in FOUR]
    aged = all(states[name]["age_s"] is not None for name in FOUR)
    tell.check("each has an age of its own", aged and len(set(moments)) == 4, moments)
    shown = scene.lumen.get(f"/allocations/{lease}")
    _show(scene, shown, "GET /allocations/{second-light}, as the tenant sees it")
    tell.check(
        "the tenant sees four states of the lease too, none older than it says",
        all(shown["states"][name]["age_s"] is not None for name in FOUR),
        shown["states"],
    )
    tell.asked("the worker is started again, and the host repaired")
    fault_set(scene.root, NODE, "slow_s=0")
    scene.start_part("worker")
    until(
        "the release to be finished by the worker",
        lambda: scene.lumen.get(f"/allocations/{lease}")["state"],
        lambda seen: seen == "released",
        timeout_s=PATIENCE_S,
    )
    fault_clear(scene.root, NODE)
    scene.settled(NODE)
    after = _settled_projection(scene)
    tell.seen(f"the cleanup is proven, {NODE} is healthy, its projection says {after}")
    tell.check("desired and observed agree again", after == "partially_allocated", after)


def record(scene: Scene) -> None:
    """The event chain verifies, and the audits find nothing."""
    tell = scene.tell
    tell.chapter("The event chain verifies, and the audits find nothing")
    tell.asked("$ manage.py events_verify")
    done = scene.manage("events_verify")
    tell.shown(done.stdout.strip().splitlines()[-4:])
    tell.check("every event is where it was written", done.returncode == 0, done.stderr[-600:])
    tell.asked("$ manage.py audits")
    done = scene.manage("audits")
    tell.shown(done.stdout.strip().splitlines()[-12:])
    tell.check("no audit finds anything", done.returncode == 0, done.stderr[-600:])


def _settled_projection(scene: Scene) -> str:
    node = until(
        f"the projection of {NODE} to be what is derived",
        lambda: scene.node(NODE),
        lambda seen: seen["states"]["projected"]["value"] == seen["posture"],
        timeout_s=PATIENCE_S,
        show=lambda seen: (seen["states"]["projected"]["value"], seen["posture"]),
    )
    return str(node["posture"])


def _all_at_once(node: Json) -> bool:
    states = node["states"]
    projected = states["projected"]
    return (
        "prerequisite_missing" in states["observed"]["value"]
        and states["executing"]["value"].startswith("slice.vm_release leased")
        and states["executing"]["detail"] != ""
        and projected["value"] != node["posture"]
        and (projected["age_s"] or 0) > OLD_S
    )


def _show(scene: Scene, thing: Json, what: str) -> None:
    scene.tell.seen(what)
    rows = [("state", "says", "age", "as of", "by whom")]
    for name in FOUR:
        state = thing["states"][name]
        age = "unknown" if state["age_s"] is None else f"{state['age_s']:.1f} s"
        says = state["value"] + (f" ({state['detail']})" if state["detail"] else "")
        as_of = (state["as_of"] or "")[11:19]
        rows.append((name, says + (" ≠" if state["drift"] else ""), age, as_of, state["source"]))
    scene.tell.table(rows)
