"""What becomes of a host one of whose helper's records cannot be read any more?"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.backend import BackendError
from nodeagent.files import read_json
from nodeagent.host.helper.bounds import Bounds
from nodeagent.host.records import SLICE, Records, Tenancy
from nodeagent.protocol import (
    SlotDevices,
    TaskKind,
    TopologyReport,
    VmProvisionParams,
    VmReleaseParams,
    VmState,
)
from tests.nodeagent.host_stage import HostStage, host_stage, until

SLOT = SlotDevices(0, "GPU-00000000-0000", nic="nic-0")
ONE = Tenancy("one", SLICE, "base", "vm-1", "ubuntu", ("key",), (SLOT,), "boot-1", 0, uid=70000)


def member(name: str, value: Any) -> Callable[[str], str]:
    """A record in which one member is another."""

    def change(text: str) -> str:
        return json.dumps({**json.loads(text), name: value})

    return change


WHOLE = [
    pytest.param(lambda text: text[: len(text) // 2], id="cut"),
    pytest.param(lambda text: "", id="empty"),
    pytest.param(lambda text: "null", id="nothing"),
    pytest.param(lambda text: "[1]", id="a list"),
    pytest.param(member("claim", "other"), id="another's"),
    pytest.param(member("uid", "70000"), id="no user"),
    pytest.param(member("slots", []), id="no slot"),
    pytest.param(member("slots", [{"slot_index": 0}]), id="half a slot"),
]
NAMED = [
    pytest.param(member("port", "22"), id="a port that is none"),
    pytest.param(member("errors", {"GPU-0": {"ecc": "1"}}), id="a count that is none"),
    pytest.param(member("user", "a\u200bb"), id="a name that is none"),
    pytest.param(member("kind", "slicf"), id="no kind"),
    pytest.param(lambda text: text.replace('"image"', '"imagf"'), id="a member by another name"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two records."""
    records = Records(tmp_path / "tenancies")
    records.put(ONE)
    records.put(Tenancy("two", SLICE, "base", "vm-2", "ubuntu", (), (SLOT,), "boot-1", 0))
    return tmp_path / "tenancies"


def spoil(folder: Path, change: Callable[[str], str], claim: str = "one") -> Path:
    """Damage a record as a disk would."""
    path = folder / f"{claim}.json"
    path.write_text(change(path.read_text()))
    return path


@pytest.mark.parametrize("change", [*WHOLE, *NAMED])
def test_a_damaged_record_is_moved_aside_and_the_others_are_read(
    folder: Path, change: Callable[[str], str]
) -> None:
    path = spoil(folder, change)
    for records in (Records(folder), Records(folder)):
        assert [one.claim for one in records.all()] == ["two"]
        assert records.get("one") is None
        (bad,) = records.damaged()
        assert (bad.claim, bad.file.name, bad.file.parent.name) == ("one", "one.0.json", "damaged")
        assert bad.why
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [pytest.param(*one.values, False, id=one.id) for one in WHOLE]
    + [pytest.param(*one.values, True, id=one.id) for one in NAMED],
)
def test_only_a_record_whose_slots_and_user_can_be_read_is_about_those_alone(
    folder: Path, change: Callable[[str], str], named: bool
) -> None:
    spoil(folder, change)
    (bad,) = Records(folder).damaged()
    assert (bad.told is not None) is named
    if bad.told is not None:
        assert (bad.told.indexes, bad.told.uid, bad.told.boot) == ({0}, 70000, "")


def test_a_record_of_a_later_or_an_earlier_helper_is_not_damaged(folder: Path) -> None:
    spoil(folder, member("of_later", 1))
    path = folder / "two.json"
    earlier = {name: v for name, v in json.loads(path.read_text()).items() if name != "uid"}
    path.write_text(json.dumps(earlier))
    records = Records(folder)
    assert [one.claim for one in records.all()] == ["one", "two"]
    assert (records.get("one"), records.damaged()) == (ONE, [])


@pytest.mark.parametrize("number", [errno.EIO, errno.EUCLEAN, errno.EBADMSG])
@pytest.mark.parametrize("moves", [True, False])
def test_a_record_that_its_file_system_has_lost_is_told_of_and_the_others_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, moves: bool
) -> None:
    def read(path: Path) -> Any:
        if path.name.startswith("one."):
            raise OSError(number, os.strerror(number), str(path))
        return read_json(path)

    def replaced(path: Path, target: Path) -> None:
        if not moves:
            raise OSError(number, os.strerror(number), str(path))
        path.rename(target)

    monkeypatch.setattr("nodeagent.host.records.read_json", read)
    monkeypatch.setattr("nodeagent.host.records.os.replace", replaced)
    records = Records(folder)
    assert [one.claim for one in records.all()] == ["two"]
    (bad,) = records.damaged()
    assert (bad.claim, bad.told, bad.file.parent.name == "damaged") == ("one", None, moves)


def test_a_record_that_may_not_be_read_is_not_taken_for_a_damaged_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("nodeagent.host.records.read_json", read)
    with pytest.raises(PermissionError):
        Records(folder).all()
    assert sorted(path.name for path in folder.iterdir()) == ["one.json", "two.json"]


def test_what_a_task_may_have_in_a_key_is_no_damage_in_a_record(folder: Path) -> None:
    named = "ssh-ed25519 AAAA clé\u00a0à la maison\u200b"
    sent = VmProvisionParams.from_json(
        {
            "allocation_id": "one",
            "slots": [SLOT.to_json()],
            "image": "base",
            "hostname": "vm-1",
            "ssh_keys": [named],
        }
    )
    records = Records(folder)
    records.put(replace(ONE, ssh_keys=sent.ssh_keys))
    assert (Records(folder).get("one"), records.damaged()) == (replace(ONE, ssh_keys=(named,)), [])
    for wrong in ("ssh-ed25519 AAAA a\x00b", "ssh-ed25519 AAAA a\nb", 7):
        spoil(folder, member("ssh_keys", [wrong]))
        assert records.get("one") is None
        assert {one.claim for one in records.damaged()} == {"one"}
        records.put(ONE)


def test_a_damaged_record_takes_no_other_ones_place(folder: Path) -> None:
    for text in ("first", "second", "third"):
        (folder / "one.json").write_text(text)
        assert Records(folder).get("one") is None
        if text == "second":
            # Somebody has looked at the first, and removed it.
            (folder / "damaged" / "one.0.json").unlink()
        Records(folder).put(ONE)
    kept = {path.name: path.read_text() for path in (folder / "damaged").iterdir()}
    assert kept == {"one.0.json": "third", "one.1.json": "second"}


def test_a_record_that_cannot_be_moved_is_told_of_where_it_is(folder: Path) -> None:
    path = spoil(folder, lambda text: "{")
    (folder / "damaged").write_text("a file in the folder's place")
    records = Records(folder)
    assert [one.claim for one in records.all()] == ["two"]
    assert [one.file for one in records.damaged()] == [path]


def test_a_record_that_was_mended_or_removed_is_told_of_no_more(folder: Path) -> None:
    spoil(folder, lambda text: "{")
    records = Records(folder)
    (bad,) = records.damaged()
    records.put(ONE)
    assert (records.get("one"), records.damaged()) == (ONE, [])
    records.drop("one")
    assert not bad.file.exists()
    spoil(folder, lambda text: "{", "two")
    (bad,) = records.damaged()
    bad.file.unlink()
    assert records.damaged() == []


def bounds_of(folder: Path, *gpus: str) -> Bounds:
    """A helper's bounds on a host with these GPUs, one a slot."""
    none = {"nic": None, "nvme": None, "extra_nics": (), "extra_nvmes": ()}
    slots = tuple(
        SimpleNamespace(index=n, gpu_index=n, gpu_uuid=gpu, **none) for n, gpu in enumerate(gpus)
    )
    report = SimpleNamespace(slots=slots, gpus=(), nics=(), nvmes=())
    return Bounds(Records(folder), lambda: cast(TopologyReport, report), "/nowhere/machines/")


def test_the_helper_itself_gives_away_nothing_that_a_damaged_record_may_be_about(
    folder: Path,
) -> None:
    (folder / "two.json").unlink()
    spoil(folder, member("port", "22"))
    other = SlotDevices(1, "GPU-1")
    moved = replace(other, nic="nic-0")
    here = bounds_of(folder, SLOT.gpu_uuid, "GPU-1")
    here.refuse_taken("new", (other,))
    here.refuse_busy(["GPU-1"])
    assert here.uids() == {70000}
    # Where the GPU that it names is not here, it may be about anything.
    nowhere = bounds_of(folder, "GPU-0", "GPU-1")
    release = VmReleaseParams("new", 1, (other,))
    acts: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (here.refuse_taken, ("new", (SLOT,))),
        (here.refuse_taken, ("one", (SLOT,))),
        (here.refuse_taken, ("new", (moved,))),
        (here.refuse_busy, ([SLOT.gpu_uuid],)),
        (nowhere.refuse_taken, ("new", (other,))),
        (nowhere.refuse_busy, (["GPU-1"],)),
        (nowhere.own_or_none, (release, (other,))),
    ]
    for act, given in acts:
        with pytest.raises(BackendError, match=r"one\.0\.json") as refused_by_name:
            act(*given)
        assert refused_by_name.value.code == "record_damaged"
    with pytest.raises(BackendError) as in_use:
        here.own_or_none(VmReleaseParams("new", 1, (SLOT,)), (SLOT,))
    assert in_use.value.code == "device_in_use"
    assert here.own_or_none(VmReleaseParams("one", 1, (SLOT,)), (SLOT,)) is None


# The processes


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host on which two claims have a slot each."""
    with host_stage() as made:
        made.control.poll_ms = 50
        made.start_helper()
        made.start_agent()
        for slot, claim in enumerate(("bad", "kept")):
            made.done(TaskKind.VM_PROVISION, made.provision(slot, allocation=claim), claim)
        yield made


def conditions(stage: HostStage) -> list[tuple[str, str | None, str | None]]:
    """Of the last report: codes, devices and claims."""
    last = stage.control.observed[-1].conditions
    return [(one.code, one.device, one.claim_ref) for one in last]


def refused(stage: HostStage, slot: int, claim: str) -> str:
    """By which name a machine is not made there."""
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(slot, allocation=claim), task_id=claim)
    assert until(lambda: stage.answered(claim))
    return next((fail.code for task, fail in stage.control.failed if task == claim), "")


def test_a_host_with_a_record_that_says_nothing_is_heard_and_takes_nothing_new(
    stage: HostStage,
) -> None:
    spoil(stage.folder / "helper" / "tenancies", lambda text: text[:40], "bad")
    assert until(lambda: conditions(stage) == [("record_damaged", None, "bad")])
    last = stage.control.observed[-1]
    assert {vm.claim_ref: vm.state for vm in last.vms} == {
        "bad": VmState.RUNNING,
        "kept": VmState.RUNNING,
    }
    # Nobody knows whose the devices are, so that none is said to be clean.
    assert {gpu.clean for gpu in last.devices.gpus} == {None}
    assert refused(stage, 5, "new") == "record_damaged"
    # What has a record of its own is given back as ever; of what has none nobody knows.
    stage.done(TaskKind.VM_RELEASE, stage.release(1, allocation="kept"), "end-kept")
    stage.control.add(TaskKind.VM_RELEASE, stage.release(3, allocation="other"), task_id="other")
    assert until(lambda: stage.answered("other"))
    assert (stage.control.failed[-1][1].code, stage.control.failed[-1][1].retryable) == (
        "record_damaged",
        True,
    )
    # Its own release is signed, and says what it had: it is cleaned and proven, and all is well.
    stage.done(TaskKind.VM_RELEASE, stage.release(0, allocation="bad"), "end-bad")
    assert (stage.machine("bad"), stage.records, stage.traces()) == (None, [], [])
    # A report from the middle of the cleanup says nothing of its traces, and that they are there.
    assert until(lambda: {one.clean for one in stage.control.observed[-1].devices.gpus} == {True})
    assert conditions(stage) == []
    assert refused(stage, 0, "next") == ""


def test_a_record_that_still_names_its_slots_keeps_only_those_from_the_next(
    stage: HostStage,
) -> None:
    gpu = stage.slots(0)[0].gpu_uuid
    path = stage.folder / "helper" / "tenancies" / "bad.json"
    whole = path.read_text()
    spoil(path.parent, member("port", "none"), "bad")
    assert until(lambda: conditions(stage) == [("record_damaged", gpu, "bad")])
    held = {one.id: one.holder for one in stage.control.observed[-1].devices.gpus if one.holder}
    assert held == {gpu: "bad", stage.slots(1)[0].gpu_uuid: "kept"}
    # The agent's own check comes first: the device has a holder.
    assert (refused(stage, 0, "same"), refused(stage, 5, "new")) == ("device_in_use", "")
    # Root puts a whole record back.
    path.write_text(whole)
    assert until(lambda: conditions(stage) == [])
    assert stage.machine("bad") is not None
    stage.done(TaskKind.VM_RELEASE, stage.release(0, allocation="bad"), "end")
    assert stage.traces() == [1, 5]
