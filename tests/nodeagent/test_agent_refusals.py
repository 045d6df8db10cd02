"""Does an agent refuse whatever is not properly its own to do, without touching the host?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.protocol import TaskKind, VmProvisionParams, params_sha256
from tests.nodeagent.conftest import Bench
from tests.nodeagent.control import signed_by


def untouched(bench: Bench) -> bool:
    """Whether the host has no machine and no tenant's mark."""
    state = bench.backend.store.state
    return not state.vms and not state.canaries


def refused_with(bench: Bench) -> list[str]:
    """The codes that the agent gave."""
    bench.rounds(2)
    return [fail.code for _, fail in bench.control.failed]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"node_id": "node-2"}, "wrong_node"),
        ({"kind": "slice.run_script"}, "unsupported_task"),
        ({"schema": 2}, "schema_invalid"),
        ({"nonce": "short"}, "schema_invalid"),
        ({"surprise": 1}, "schema_invalid"),
        ({"params_sha256": "0" * 64}, "params_mismatch"),
        ({"expires_at": 1_700_000_000}, "task_expired"),
        ({"not_before": 1_900_000_000}, "task_not_yet_valid"),
        ({"boot_id": "another-boot-id"}, "wrong_boot"),
    ],
)
def test_a_task_that_is_not_for_this_node_now_is_refused(
    bench: Bench, changes: dict[str, Any], code: str
) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), **changes)
    assert refused_with(bench) == [code]
    assert untouched(bench)


def test_a_task_signed_by_another_key_is_refused(bench: Bench) -> None:
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.control.queue[:] = [signed_by(queued, Ed25519PrivateKey.generate())]
    assert refused_with(bench) == ["signature_invalid"]
    assert untouched(bench)


def test_a_task_changed_after_it_was_signed_is_refused(bench: Bench) -> None:
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    queued.envelope["lease_epoch"] = 9
    assert refused_with(bench) == ["signature_invalid"]
    assert untouched(bench)


def test_parameters_changed_after_they_were_signed_are_refused(bench: Bench) -> None:
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    queued.params["hostname"] = "elsewhere"
    assert refused_with(bench) == ["params_mismatch"]
    assert untouched(bench)


@pytest.mark.parametrize(
    "change",
    [
        {"image": "ubuntu; rm -rf /"},
        {"image": "../../etc/passwd"},
        {"ssh_keys": ["ssh-ed25519 AAAA\ncommand"]},
        {"ssh_keys": ['command="id" ssh-ed25519 AAAA']},
        {"hostname": "-oProxyCommand=id"},
        {"slots": []},
        {"script": "id"},
        {"allocation_id": "a b"},
    ],
)
def test_parameters_outside_the_schema_are_refused_although_signed(
    bench: Bench, change: dict[str, Any]
) -> None:
    params = {**bench.provision(0).to_json(), **change}
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.control.queue.clear()
    bench.control.add_raw({**queued.envelope, "params_sha256": params_sha256(params)}, params)
    assert refused_with(bench) == ["schema_invalid"]
    assert untouched(bench)


def test_a_lower_epoch_than_seen_before_is_refused(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=5)
    bench.rounds()
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=4)
    assert refused_with(bench) == ["stale_epoch"]
    assert len(bench.control.completed) == 1


def test_the_epoch_is_remembered_across_a_restart(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=5)
    bench.rounds()
    bench.rounds(1)
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=4)
    assert refused_with(bench) == ["stale_epoch"]


def _with_slot(bench: Bench, **changes: Any) -> VmProvisionParams:
    params = bench.provision(0)
    return replace(params, slots=(replace(params.slots[0], **changes),))


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu_uuid": "GPU-of-another-host"},
        {"nic": "0102:00:00.0"},
        {"nic": "0000:00:1f.0"},
        {"extra_nics": ("0102:00:00.0",)},
        {"nvme": "0000:01:00.0"},
        {"numa": 1},
        {"cpuset": "0-95"},
        {"cpuset": "12-23"},
    ],
)
def test_a_device_that_is_not_the_slots_is_refused(bench: Bench, changes: dict[str, Any]) -> None:
    bench.control.add(TaskKind.VM_PROVISION, _with_slot(bench, **changes))
    assert refused_with(bench) == ["device_mismatch"]
    assert untouched(bench)


def test_a_slot_is_known_by_its_gpu_whatever_its_number_is(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, _with_slot(bench, slot_index=99))
    bench.rounds()
    assert bench.backend.store.state.vms["alloc-1"].slots == [99]
    other = replace(_with_slot(bench, slot_index=5), allocation_id="alloc-2")
    bench.control.add(TaskKind.VM_PROVISION, other, task_id="task-2")
    assert refused_with(bench) == ["device_in_use"]


def test_a_slot_that_another_machine_has_is_refused(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
    bench.rounds()
    other = bench.provision(1, 2, allocation="alloc-2")
    bench.control.add(TaskKind.VM_PROVISION, other, task_id="task-2")
    assert refused_with(bench) == ["device_in_use"]
    assert list(bench.backend.store.state.vms) == ["alloc-1"]


def test_a_whole_node_is_refused_while_a_slice_is_on_it(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(3))
    bench.rounds()
    bare = bench.bare_provision("alloc-2")
    bench.control.add(TaskKind.BAREMETAL_PROVISION, bare, task_id="task-2")
    assert refused_with(bench) == ["device_in_use"]


def test_another_allocations_machine_is_not_released(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    wrong = bench.release(0, allocation="alloc-2")
    bench.control.add(TaskKind.VM_RELEASE, wrong, task_id="task-2")
    assert refused_with(bench) == ["device_in_use"]
    assert list(bench.backend.store.state.vms) == ["alloc-1"]


def test_half_of_a_machine_is_not_released(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
    bench.rounds()
    bench.control.add(TaskKind.VM_RELEASE, bench.release(0), task_id="task-2")
    assert refused_with(bench) == ["allocation_differs"]
    assert list(bench.backend.store.state.vms) == ["alloc-1"]


def test_a_released_allocation_never_comes_back(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_RELEASE, bench.release(0))
    bench.rounds()
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), task_id="task-2")
    assert refused_with(bench) == ["allocation_released"]
    assert untouched(bench)


def test_a_task_without_a_name_is_dropped_without_an_answer(bench: Bench) -> None:
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.control.queue.clear()
    bench.control.add_raw({**queued.envelope, "task_id": "../../nodes"}, queued.params)
    assert refused_with(bench) == []
    assert untouched(bench)
