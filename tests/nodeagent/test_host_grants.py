"""Does the helper do for the agent only what the control plane has signed, for this node, now?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.backend import BackendError
from nodeagent.host.config import HostConfig
from nodeagent.host.helper.client import Helper
from nodeagent.host.helper.grants import MAKING, RELEASING, Grants
from nodeagent.host.helper.keys import ControlKeys, read_control_keys
from nodeagent.host.helper.wire import VERBS_OF, WITHOUT_TASK, Verb
from nodeagent.host.records import Records
from nodeagent.protocol import (
    RELEASE_KINDS,
    BurnInParams,
    CleanupStep,
    SignedTask,
    SlotDevices,
    TaskKind,
    TaskParams,
    VmProvisionParams,
    VmReleaseParams,
)
from nodeagent.signing import public_text
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.control import NODE, Control, Queued, envelope_of, signed_by
from tests.nodeagent.host_stage import KEY, HostStage, host_stage, until

BOOT = "boot-id-1"
SLOT = SlotDevices(0, "GPU-0", nic="nic-0")
MAKE = VmProvisionParams("alloc-1", "small", (KEY,), "tenant", (SLOT,))
END = VmReleaseParams("alloc-1", 1, (SLOT,))
BURN = BurnInParams(("GPU-0",), 60, 600)
EVERY = frozenset(TaskKind)


class Desk:
    """A helper's own check, and a control plane that signs for it."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.control = Control(self.clock)
        self.keys = [public_text(self.control.key)]
        self.memory = folder / "grants.json"
        self.kinds = EVERY
        self.grants = self.again()

    def again(self) -> Grants:
        """The next helper, with what the one before has written down."""
        self.grants = Grants(self._trusted, self.memory, BOOT, self.clock, self.kinds)
        return self.grants

    def _trusted(self) -> ControlKeys:
        return ControlKeys(NODE, tuple(self.keys))

    def task(self, kind: TaskKind, params: TaskParams, /, **changes: Any) -> Queued:
        """A task as the control plane signs it."""
        return self.control.add(kind, params, **changes)

    def make(self, **changes: Any) -> Queued:
        """One that makes a machine."""
        return self.task(TaskKind.VM_PROVISION, MAKE, **changes)

    def end(self, **changes: Any) -> Queued:
        """Its release."""
        return self.task(TaskKind.VM_RELEASE, END, **{"task_id": "end", **changes})

    def code(self, task: Queued, verb: Verb = Verb.TAKE) -> str:
        """'' where the verb is allowed, or by which name it is refused."""
        try:
            self.grants.checked(verb, signed(task))
        except BackendError as error:
            return error.code if error.detail.startswith("the host's helper: ") else error.detail
        return ""


def signed(task: Queued) -> SignedTask:
    """As it is carried."""
    return SignedTask(task.envelope, task.params, task.signature)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A helper that has seen nothing."""
    return Desk(tmp_path)


def test_a_task_allows_its_own_verbs_and_no_other(desk: Desk) -> None:
    # The release last: from then on nothing of it is made.
    tasks = [
        desk.make(),
        desk.task(TaskKind.BURN_IN, BURN, task_id="burn"),
        desk.end(),
    ]
    said = [(envelope_of(one).kind, verb, desk.code(one, verb)) for one in tasks for verb in Verb]
    allowed = {(kind, verb) for kind, verb, code in said if not code}
    kinds = (TaskKind.VM_PROVISION, TaskKind.BURN_IN, TaskKind.VM_RELEASE)
    assert allowed == {(kind, verb) for kind in kinds for verb in VERBS_OF[kind]}
    assert {code for _, _, code in said} == {"", "verb_not_allowed"}
    assert WITHOUT_TASK | set().union(*VERBS_OF.values()) == set(Verb)


def test_a_forged_task_is_refused(desk: Desk) -> None:
    assert desk.code(signed_by(desk.make(), Ed25519PrivateKey.generate())) == "signature_invalid"
    assert not desk.memory.exists()


def test_a_key_that_root_has_not_written_down_yet_is_refused_for_now(desk: Desk) -> None:
    task = signed_by(desk.end(), Ed25519PrivateKey.generate())
    with pytest.raises(BackendError) as refused:
        desk.grants.checked(Verb.TAKE, signed(task))
    assert (refused.value.code, refused.value.retryable) == ("signature_invalid", True)


@pytest.mark.parametrize(
    "wider",
    [
        {"slots": [replace(SLOT, gpu_uuid="GPU-of-another-claim").to_json()]},
        {
            "slots": [
                SLOT.to_json(),
                replace(SLOT, slot_index=1, gpu_uuid="GPU-1", nic=None).to_json(),
            ]
        },
        {"slots": [replace(SLOT, cpuset="0-255").to_json()]},
        {"slots": [replace(SLOT, memory_bytes=2**45).to_json()]},
        {"allocation_id": "alloc-2"},
        {"image": "another"},
        {"ssh_keys": []},
    ],
    ids=["other devices", "more slots", "more CPUs", "more memory", "other claim", "image", "keys"],
)
def test_arguments_that_were_widened_are_refused(desk: Desk, wider: dict[str, Any]) -> None:
    task = desk.make()
    assert desk.code(replace(task, params={**task.params, **wider})) == "params_mismatch"
    assert desk.code(task) == ""


def test_a_limit_that_was_widened_is_refused(desk: Desk) -> None:
    task = desk.task(TaskKind.BURN_IN, BURN)
    longer = replace(task, params={**task.params, "limit_s": 80_000})
    assert desk.code(longer, Verb.BURN_IN) == "params_mismatch"


def test_a_task_of_another_node_boot_or_kind_is_refused(desk: Desk) -> None:
    assert desk.code(desk.make(node_id="node-2")) == "wrong_node"
    assert desk.code(desk.make(boot_id="boot-id-0")) == "wrong_boot"
    assert desk.code(desk.make(kind="slice.shell")) == "unsupported_task"
    assert desk.code(desk.make(schema=2)) == "schema_invalid"
    desk.kinds = RELEASE_KINDS
    desk.again()
    assert desk.code(desk.make()) == "unsupported_task"
    assert desk.code(desk.end()) == ""


def test_what_a_host_is_not_set_up_for_any_more_can_still_be_given_back() -> None:
    bare = HostConfig(server="https://control.example.org", name="host-1")
    assert bare.kinds == RELEASE_KINDS


def test_an_earlier_lease_is_refused_once_a_later_one_was_seen(desk: Desk) -> None:
    first, second = desk.make(), desk.make(epoch=2)
    assert [desk.code(first), desk.code(second), desk.code(first)] == ["", "", "stale_epoch"]
    desk.again()
    assert [desk.code(first), desk.code(second)] == ["stale_epoch", ""]


def test_two_tasks_under_one_lease_are_one_too_many(desk: Desk) -> None:
    assert desk.code(desk.make()) == ""
    assert desk.code(desk.make(nonce="another-nonce-of-the-same")) == "task_replayed"


def test_one_lease_gives_one_burn_in(desk: Desk) -> None:
    task = desk.task(TaskKind.BURN_IN, BURN)
    assert desk.code(task) == ""
    assert [desk.code(task, Verb.BURN_IN) for _ in range(2)] == ["", "task_replayed"]
    desk.again()
    assert desk.code(task, Verb.BURN_IN) == "task_replayed"
    assert desk.code(desk.task(TaskKind.BURN_IN, BURN, epoch=2), Verb.BURN_IN) == ""


def test_what_was_released_is_not_made_again_by_a_recorded_task(desk: Desk) -> None:
    make, again = desk.make(), desk.make(task_id="recorded")
    assert [desk.code(make), desk.code(desk.end())] == ["", ""]
    for verb in (Verb.DEFINE, Verb.ATTACH, Verb.START):
        assert desk.code(make, verb) == "allocation_released"
    desk.again()
    assert desk.code(again) == "allocation_released"


@pytest.mark.parametrize(
    ("late_s", "made", "ended"),
    [
        (600 + MAKING.clock, "", ""),
        (601 + MAKING.clock, "task_expired", ""),
        (600 + RELEASING.clock, "task_expired", ""),
        (601 + RELEASING.clock, "task_expired", "task_expired"),
    ],
)
def test_a_task_ends_by_the_helpers_own_clock(
    desk: Desk, late_s: int, made: str, ended: str
) -> None:
    """Signed for 600 seconds; the tolerance of a release is a day."""
    other = desk.make(), desk.end()
    desk.clock.time += late_s
    assert [desk.code(one) for one in other] == [made, ended]


@pytest.mark.parametrize(
    ("early_s", "made", "ended"),
    [
        (MAKING.clock - 5, "", ""),
        (MAKING.clock + 10, "task_not_yet_valid", ""),
        (RELEASING.clock + 10, "task_not_yet_valid", "task_not_yet_valid"),
    ],
)
def test_a_task_of_later_is_not_taken_yet(desk: Desk, early_s: int, made: str, ended: str) -> None:
    tasks = desk.make(), desk.end()
    desk.clock.time -= early_s
    assert [desk.code(one) for one in tasks] == [made, ended]


def test_work_goes_on_after_its_lease_was_signed_for_and_not_for_ever(desk: Desk) -> None:
    """The control plane is away for hours; what it has signed is carried to its end."""
    make = desk.make(task_id="other", params_sha256=desk.make().envelope["params_sha256"])
    end = desk.task(TaskKind.VM_RELEASE, replace(END, allocation_id="alloc-2"), task_id="end")
    assert [desk.code(make), desk.code(end)] == ["", ""]
    desk.clock.time += MAKING.work
    desk.again()
    assert [desk.code(make, Verb.START), desk.code(end, Verb.CLEAN)] == ["", ""]
    desk.clock.time += 1
    assert [desk.code(make, Verb.START), desk.code(end, Verb.CLEAN)] == ["task_expired", ""]
    desk.clock.time += RELEASING.work - MAKING.work
    assert desk.code(end, Verb.SETTLE) == "task_expired"
    assert desk.code(desk.task(TaskKind.VM_RELEASE, END, task_id="end", epoch=2)) == ""


def test_what_can_be_taken_no_more_is_forgotten(desk: Desk) -> None:
    for number in range(20):
        assert desk.code(desk.make(task_id=f"make-{number}")) == ""
    desk.clock.time += RELEASING.work
    assert desk.code(desk.make(task_id="last")) == ""
    assert list(json.loads(desk.memory.read_text())["tasks"]) == ["last"]


def test_a_damaged_memory_is_set_aside_and_stops_no_release(desk: Desk) -> None:
    assert desk.code(desk.make(epoch=7)) == ""
    desk.memory.write_text('{"tasks": [')
    desk.again()
    assert desk.code(desk.end()) == ""
    assert desk.memory.with_name("grants.json.damaged").exists()


def test_keys_rotate_without_a_restart(desk: Desk) -> None:
    old, new = desk.control.key, Ed25519PrivateKey.generate()
    first = desk.make()
    later = signed_by(desk.make(task_id="later"), new)
    assert [desk.code(first), desk.code(later)] == ["", "signature_invalid"]
    desk.keys = [public_text(old), public_text(new)]
    assert [desk.code(first), desk.code(later)] == ["", ""]
    desk.keys = [public_text(new)]
    assert [desk.code(first, Verb.START), desk.code(later)] == ["signature_invalid", ""]


def written(folder: Path, text: str, mode: int = 0o644) -> Path:
    """A file of keys."""
    path = folder / "control-keys.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


GOOD = f'node_id = "node-1"\nkeys = ["{"A" * 43}="]\n'


def test_the_file_of_keys_is_roots_and_only_root_may_write_it(tmp_path: Path) -> None:
    assert read_control_keys(written(tmp_path, GOOD)) == ControlKeys("node-1", ("A" * 43 + "=",))
    for mode in (0o664, 0o646):
        with pytest.raises(BackendError, match="only root may write"):
            read_control_keys(written(tmp_path, GOOD, mode))
    path = written(tmp_path, GOOD)
    tmp_path.chmod(0o777)
    with pytest.raises(BackendError, match="its folder must be root's"):
        read_control_keys(path)
    tmp_path.chmod(0o755)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    with pytest.raises(BackendError, match="cannot be opened"):
        read_control_keys(link)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no node_id"),
        ("node_id = 7\nkeys = []", "no node_id"),
        ('node_id = "node-1"', "1 to 8 keys"),
        ('node_id = "node-1"\nkeys = []', "1 to 8 keys"),
        ('node_id = "node-1"\nkeys = ["short"]', r"keys\[0\] is no Ed25519"),
        (GOOD + 'server = "x"\n', "'server', which is neither"),
        ("keys = [", "cannot be read as TOML"),
        ("# " + "x" * 20_000, "longer than"),
    ],
)
def test_a_file_of_keys_that_is_none_says_why_and_what_would_do(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(BackendError, match=why) as refused:
        read_control_keys(written(tmp_path, text))
    assert refused.value.code == "control_keys_unusable"
    assert refused.value.retryable
    assert "control_keys --node" in refused.value.detail


# The processes


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host with small stand-in machines, its two halves running."""
    with host_stage() as made:
        made.control.poll_ms = 50
        made.start_helper()
        made.start_agent()
        assert until(lambda: bool(made.control.observed))
        yield made


def asked(stage: HostStage, verb: Verb, task: Queued, **more: Any) -> str:
    """What the helper says to whoever has the agent's user: '' or a code."""
    helper = Helper(stage.folder / "run" / "helper.sock")
    try:
        asyncio.run(helper.ask(verb, task=signed(task).to_json(), **more))
    except BackendError as error:
        return error.code
    return ""


def off_the_queue(stage: HostStage, kind: TaskKind, params: TaskParams, **changes: Any) -> Queued:
    """A signed task that the agent is not given."""
    task = stage.control.add(kind, params, **changes)
    stage.control.queue.remove(task)
    return task


def last_failure(stage: HostStage, task_id: str) -> tuple[str, str]:
    """Code and words of a task that was refused or failed, once it was."""
    assert until(lambda: stage.answered(task_id))
    fail = next(fail for task, fail in reversed(stage.control.failed) if task == task_id)
    return fail.code, fail.detail


def test_a_taken_over_agent_gets_nothing_done_that_was_not_signed(stage: HostStage) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(1, allocation="yours"), "yours")
    yours, traces = stage.machine("yours"), stage.traces()
    good = off_the_queue(stage, TaskKind.VM_PROVISION, stage.provision(0), task_id="mine")
    mine = envelope_of(good)
    forged = signed_by(good, Ed25519PrivateKey.generate())
    others = replace(good, params=stage.provision(1).to_json())
    taken = off_the_queue(stage, TaskKind.VM_PROVISION, stage.provision(1), task_id="taken")
    ended = off_the_queue(stage, TaskKind.VM_RELEASE, stage.release(1), task_id="ended")
    assert mine.node_id == NODE
    said = {
        "forged": asked(stage, Verb.DEFINE, forged),
        "widened": asked(stage, Verb.DEFINE, others),
        "another's devices": asked(stage, Verb.DEFINE, taken),
        "another verb": asked(stage, Verb.CLEAN, good, step=CleanupStep.VM_GONE.value),
        "another's machine": asked(stage, Verb.CLEAN, ended, step=CleanupStep.VM_GONE.value),
        "more beside it": asked(stage, Verb.DEFINE, good, claim="yours"),
    }
    assert said == {
        "forged": "signature_invalid",
        "widened": "params_mismatch",
        "another's devices": "device_in_use",
        "another verb": "verb_not_allowed",
        "another's machine": "device_in_use",
        "more beside it": "request_invalid",
    }
    assert [one.claim for one in stage.records] == ["yours"]
    assert (stage.machine("yours"), stage.traces()) == (yours, traces)


def test_what_was_cleaned_is_not_made_again_by_a_recorded_task(stage: HostStage) -> None:
    make = stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    assert until(lambda: stage.completed("make"))
    stage.done(TaskKind.VM_RELEASE, stage.release(0), "end")
    stage.kill_helper()
    stage.start_helper()
    assert asked(stage, Verb.DEFINE, make) == "allocation_released"
    assert asked(stage, Verb.START, make) == "allocation_released"
    assert (stage.records, stage.machine("alloc-1")) == ([], None)


def test_a_task_whose_key_the_helper_does_not_have_is_refused_by_name_until_root_adds_it(
    stage: HostStage,
) -> None:
    old, new = stage.control.key, Ed25519PrivateKey.generate()
    stage.control.key = new
    # The agent believes the control plane's word for the new key; the helper does not.
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    code, detail = last_failure(stage, "make")
    assert (code, detail.startswith("the host's helper: ")) == ("signature_invalid", True)
    assert stage.control.renewals == 1
    assert stage.records == []
    stage.trust(public_text(old), public_text(new))
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make", epoch=2)
    stage.trust(public_text(new))
    stage.done(TaskKind.VM_RELEASE, stage.release(0), "end")
    assert (stage.records, stage.traces()) == ([], [])


def test_a_release_is_taken_at_once_while_the_claims_host_is_still_being_made(
    stage: HostStage,
) -> None:
    hook = stage.folder / "hooks" / "provision"
    quick = hook.read_text()
    hook.write_text(quick.replace("read -r told", "read -r told; sleep 13"))
    stage.control.add(TaskKind.BAREMETAL_PROVISION, stage.bare_provision(), task_id="make")
    assert until(lambda: (stage.folder / "hooks" / "calls.jsonl").exists())
    stage.done(TaskKind.BAREMETAL_RELEASE, stage.bare_release(), "end")
    assert {task: fail.code for task, fail in stage.control.failed} == {"make": "cancelled"}
    assert stage.records == []


def test_a_helper_without_keys_takes_nothing_and_the_host_says_so(stage: HostStage) -> None:
    stage.control_keys.unlink()
    assert until(
        lambda: (
            "prerequisite_missing" in {one.code for one in stage.control.observed[-1].conditions}
        )
    )
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    code, detail = last_failure(stage, "make")
    assert (code, "manage.py control_keys" in detail) == ("control_keys_unusable", True)
    stage.trust(public_text(stage.control.key))
    assert until(lambda: stage.control.observed[-1].conditions == ())
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make", epoch=2)


def test_an_agent_from_before_is_refused_by_name_and_still_sees_its_host(stage: HostStage) -> None:
    helper = Helper(stage.folder / "run" / "helper.sock")
    params = stage.provision(0).to_json()
    for old in (
        {"verb": Verb.DEFINE, "kind": "slice.vm_provision", "params": params},
        {"verb": Verb.ATTACH, "claim": "alloc-1"},
        {"verb": Verb.CLEAN, "kind": "slice.vm_release", "params": params, "step": "vm_gone"},
        {"verb": Verb.BURN_IN, "params": params, "load": {"task_id": "t", "lease_epoch": 1}},
    ):
        verb = Verb(str(old.pop("verb")))
        with pytest.raises(BackendError, match="the agent is older than its helper") as refused:
            asyncio.run(helper.ask(verb, **old))
        assert (refused.value.code, refused.value.retryable) == ("task_missing", True)
    seen = helper.inspect()
    assert sorted(seen.to_json()) == ["burning", "runtime", "strays", "tenancies", "works"]


def test_the_control_plane_away_for_an_hour_stops_no_cleanup_that_has_begun(
    stage: HostStage,
) -> None:
    """Nor one that the agent was restarted in: another lease of it goes on to the whole proof."""
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make")
    late = {"not_before": stage.control.now() - 7200, "expires_at": stage.control.now() - 3600}
    ended = off_the_queue(stage, TaskKind.VM_RELEASE, stage.release(0), task_id="end", **late)
    assert asked(stage, Verb.CLEAN, ended, step=CleanupStep.VM_GONE.value) == ""
    assert stage.machine("alloc-1") is None
    stage.kill_agent()
    stage.start_agent()
    stage.done(TaskKind.VM_RELEASE, stage.release(0), "end", epoch=2)
    assert (Records(stage.folder / "helper" / "tenancies").all(), stage.traces()) == ([], [])
