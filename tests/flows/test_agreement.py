"""From wherever faults have left a host, do the real agent and the control plane come to agree?

I-20, over real HTTP: once faults have stopped, within two periods what is wanted is what is
observed, or an explicit reason says why not; what nobody asked for is reported and never touched.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from nodeagent.simhost.__main__ import main as simhost
from nodeagent.simhost.agent import SimAgent
from nodeagent.simhost.state import StateStore
from placement.models import Allocation, Drift, NodeTask
from placement.services.allocations import allocation_release
from placement.services.drift import drift_sweep
from placement.states import TaskState
from tests.builders import drive_all
from tests.flows.test_fault_menu import Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
HELD = ("placed", "provisioning", "active", "releasing", "cleanup_blocked")
Trouble = Callable[[Stage, random.Random], None]


def disk(stage: Stage) -> StateStore:
    """What is on the host."""
    return StateStore(stage.folder, "host-1")


def lost_machine(stage: Stage, chance: random.Random) -> None:
    """A machine is gone; its data is not."""
    store = disk(stage)
    ours = sorted(key for key, vm in store.state.vms.items() if vm.allocation)
    if ours:
        del store.state.vms[chance.choice(ours)]
        store.save()


def stray_machine(stage: Stage, chance: random.Random) -> None:
    """Somebody starts a machine by hand."""
    assert simhost(["stray", str(stage.folder), "--slots", str(chance.randrange(8))]) == 0


def reboot(stage: Stage, _: random.Random) -> None:
    """The host goes down and comes back."""
    assert simhost(["reboot", str(stage.folder)]) == 0


def dead_agent(stage: Stage, _: random.Random) -> None:
    """The agent dies right after it has begun what it was given."""

    async def dies(agent: SimAgent) -> None:
        await agent.step()
        await agent._drop_work()

    NodeTask.objects.filter(state=TaskState.PENDING).update(due_at=Now())
    stage.process(dies)


def faulty(name: str, value: str) -> Trouble:
    """A fault of the menu, while it stands."""

    def set_it(stage: Stage, _: random.Random) -> None:
        stage.menu.set(name, value)
        stage.rounds(1)

    return set_it


TROUBLES: tuple[Trouble, ...] = (
    lost_machine,
    stray_machine,
    reboot,
    dead_agent,
    faulty("lose_reply", "1"),
    faulty("duplicate", "1"),
    faulty("drop_network", "1"),
    faulty("drop_network", "0"),
    faulty("lie_cleanup", "false_ok"),
    faulty("fail_once", "slice.vm_provision,slice.vm_release"),
    faulty("reboot", "slice.vm_release:gpu_scrubbed"),
)


def a_period(stage: Stage) -> None:
    """Polls, reports and looks of one period; what differs has stood for longer than any grace."""
    stage.rounds(3)
    for _ in range(2):
        drift_sweep()
        Drift.objects.exclude(state="closed").update(
            created_at=F("created_at") - HOUR, next_try_at=Now()
        )
        Allocation.objects.filter(state="released").update(released_at=F("released_at") - HOUR)
        Allocation.objects.update(state_since=F("state_since") - HOUR)
        drift_sweep()
        stage.rounds(2)
    drive_all()


def unexplained(stage: Stage) -> list[str]:
    """What differs between what is wanted and what is on the host, and nothing says so."""
    machines = disk(stage).state.vms
    open_rows = Drift.objects.filter(state__in=("open", "escalated"))
    said = {str(one) for one in open_rows.values_list("allocation_id", flat=True)}
    said |= set(open_rows.values_list("subject", flat=True))
    told = " ".join(one["detail"] for one in stage.fresh().conditions)
    held = {str(one.pk): one for one in Allocation.objects.filter(state__in=HELD)}
    out = [
        f"{one.state}, seen {one.observed}, with {machines.get(key)}"
        for key, one in held.items()
        if not (key in said or one.state == "cleanup_blocked")
        if not (key in machines and (one.state, one.observed) == ("active", "present"))
    ]
    for key, vm in machines.items():
        if key not in held and key not in said and vm.name not in told:
            out.append(f"machine {vm.name} of nobody")
    return out


@pytest.mark.parametrize("seed", range(6))
def test_once_faults_have_stopped_two_periods_bring_agreement_or_a_reason(
    stage: Stage, seed: int
) -> None:
    chance = random.Random(seed)
    for slots in (1, 2):
        stage.acme.order("h100.slice", slots=slots)
        stage.rounds()
    for _ in range(chance.randrange(3, 7)):
        chance.choice(TROUBLES)(stage, chance)
        if chance.random() < 0.4:
            stage.rounds(1)
        if chance.random() < 0.3:
            living = Allocation.objects.filter(state="active").first()
            if living is not None:
                allocation_release(allocation_id=living.pk, reason="", actor=stage.acme.actor)
    strangers = {key for key, vm in disk(stage).state.vms.items() if not vm.allocation}
    stage.menu.clear()
    a_period(stage)
    a_period(stage)
    assert unexplained(stage) == []
    assert {k for k, vm in disk(stage).state.vms.items() if not vm.allocation} == strangers
    assert stage.nothing_wrong()
