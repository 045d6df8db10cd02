"""After a host's own restart: is it heard at once, and is no machine of before lost?"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.records import Records, Tenancy
from nodeagent.host.runtime.kvm import Probe
from nodeagent.host.runtime.returning import Returning
from nodeagent.protocol import SlotDevices, TaskKind
from tests.nodeagent.host_stage import HostStage, host_stage, until

WORKS = Probe(True, "a guest ran")


class Machines:
    """Starts what it can; notes in which order it was asked, and what waited meanwhile."""

    def __init__(self, bad: dict[str, Exception]) -> None:
        self.bad = bad
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.returning: Returning | None = None
        self.network: dict[str, Any] = {}

    def prepare(self, tenancy: Tenancy, keep: Callable[[Tenancy], None]) -> Tenancy:
        """Its devices, its disk and its network."""
        assert self.returning is not None
        self.asked.append((tenancy.claim, self.returning.waiting))
        return replace(tenancy, **self.network)

    def start(self, tenancy: Tenancy) -> None:
        """Its process."""
        if tenancy.claim in self.bad:
            raise self.bad[tenancy.claim]


def a_record(claim: str, slot: int, **more: Any) -> Tenancy:
    """A machine that ran in an earlier boot."""
    told: dict[str, Any] = {"boot": "before", "started": True, **more}
    devices = (SlotDevices(slot, f"GPU-{slot}"),)
    return Tenancy(claim, "slice", "small", "h", "u", (), devices, told.pop("boot"), 0, **told)


def returning(
    folder: Path, bad: dict[str, Exception], runtime: Probe = WORKS
) -> tuple[Returning, Machines, Records]:
    """Machines of before and others, on a host that has just restarted."""
    records = Records(folder)
    for slot, claim in enumerate("abc"):
        records.put(a_record(claim, slot))
    records.put(a_record("never", 4, started=False))
    records.put(a_record("now", 5, boot="now"))
    records.put(a_record("traces", 6, present=False))
    machines = Machines(bad)
    made = Returning(records, cast(Any, machines), runtime, "now")
    machines.returning = made
    return made, machines, records


def test_each_has_its_turn_in_order_and_what_fails_stops_no_other(tmp_path: Path) -> None:
    bad = {
        "a": BackendError("image_unknown", "this host has no image small", retryable=False),
        "b": ValueError("nobody thought of it"),
    }
    made, machines, records = returning(tmp_path, dict(bad))
    made.run(lambda _: nullcontext())
    assert machines.asked == [("a", ("a", "b", "c")), ("b", ("b", "c")), ("c", ("c",))]
    assert made.failed("a") == "this host has no image small [image_unknown]"
    assert made.failed("b") == "the helper's code raised ValueError [backend_error]"
    assert [made.failed(one) for one in ("c", "never", "now")] == ["", "", ""]
    boots = {one.claim: (one.boot, one.rebooted) for one in records.all()}
    assert (boots["a"], boots["c"]) == (("before", False), ("now", True))
    # The next helper of the same boot tries those again, and no other.
    assert Returning(records, cast(Any, machines), WORKS, "now").waiting == ("a", "b")


def test_where_a_machine_is_reached_after_the_restart_is_kept_also_where_it_does_not_start(
    tmp_path: Path,
) -> None:
    made, machines, records = returning(tmp_path, {"a": ValueError("nobody thought of it")})
    machines.network = {"tap": "tap9", "host": "10.0.0.9", "port": 2209}
    made.run(lambda _: nullcontext())
    now = {one.claim: (one.tap, one.host, one.port, one.boot) for one in records.all()}
    assert now["a"] == ("tap9", "10.0.0.9", 2209, "before")
    assert now["b"] == now["c"] == ("tap9", "10.0.0.9", 2209, "now")


def test_nothing_is_done_for_a_claim_before_its_machine_has_had_its_turn(tmp_path: Path) -> None:
    made, _, _ = returning(tmp_path, {})
    with pytest.raises(BackendError, match="2 are before it") as not_yet:
        made.refuse_waiting("c")
    assert (not_yet.value.code, not_yet.value.retryable) == ("machines_returning", True)
    made.refuse_waiting("now")
    made.run(lambda _: nullcontext())
    made.refuse_waiting("c")
    assert made.waiting == ()


def test_a_host_on_which_machines_cannot_run_any_more_says_so_of_each(tmp_path: Path) -> None:
    made, machines, _ = returning(tmp_path, {}, Probe(False, "no /dev/kvm"))
    made.run(lambda _: nullcontext())
    assert machines.asked == []
    why = "machines cannot run on this host: no /dev/kvm [prerequisite_missing]"
    assert [made.failed(one) for one in "abc"] == [why] * 3


# The processes

# The first machine takes until it is let.
SLOW_QEMU = """#!/bin/sh
case "$*" in
*guest=gpuaas-a-slow*) while [ ! -e {folder}/go ]; do sleep 0.05; done ;;
esac
exec {folder}/qemu-now "$@"
"""


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host that has just restarted: three machines ran before, of one the image is gone."""
    with host_stage() as made:
        made.control.poll_ms = 50
        made.start_helper()
        made.start_agent()
        claims = ("a-slow", "b-bad", "c-last")
        for slot, claim in enumerate(claims):
            made.done(TaskKind.VM_PROVISION, made.provision(slot, allocation=claim), claim)
        made.kill_agent()
        made.kill_helper()
        for claim in claims:
            machine = made.machine(claim)
            assert machine is not None
            os.kill(machine.pid, signal.SIGKILL)
        assert until(lambda: not any(map(made.machine, claims)))
        records = Records(made.folder / "helper" / "tenancies")
        for one in made.records:
            image = "gone" if one.claim == "b-bad" else one.image
            records.put(replace(one, boot="the-boot-before", image=image))
        qemu = made.folder / "qemu"
        qemu.rename(made.folder / "qemu-now")
        qemu.write_text(SLOW_QEMU.format(folder=made.folder))
        qemu.chmod(0o755)
        made.control.observed.clear()
        yield made


def conditions(stage: HostStage) -> list[tuple[str, str | None]]:
    """Of the last report: codes and claims."""
    last = stage.control.observed[-1:]
    return [(one.code, one.claim_ref) for report in last for one in report.conditions]


def test_a_restarted_host_is_heard_while_its_machines_come_back_and_tells_which_does_not(
    stage: HostStage,
) -> None:
    stage.start_helper()
    stage.start_agent()
    assert until(lambda: conditions(stage) == [("machines_returning", None)])
    assert stage.states() == dict.fromkeys(("a-slow", "b-bad", "c-last"), "unknown")
    # Nothing begins meanwhile: no task is asked for.
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(5, allocation="new"), task_id="new")
    seen = len(stage.control.order)
    assert until(lambda: len(stage.control.order) > seen + 5)
    assert not stage.answered("new")
    (stage.folder / "go").touch()
    assert until(lambda: conditions(stage) == [("machine_not_restarted", "b-bad")], 60)
    assert until(lambda: stage.completed("new"), 60)
    states = {"a-slow": "running", "b-bad": "stopped", "c-last": "running", "new": "running"}
    assert until(lambda: stage.states() == states)
    (told,) = stage.control.observed[-1].conditions
    assert "this host has no image gone [image_unknown]" in told.detail
    stage.done(TaskKind.VM_RELEASE, stage.release(1, allocation="b-bad"), "end")
    assert until(lambda: conditions(stage) == [])
