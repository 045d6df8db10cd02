"""Does the helper keep every device of a claim from everybody else, whatever slot it is in now?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.helper.bounds import Bounds
from nodeagent.host.records import SLICE, Records, Tenancy
from nodeagent.protocol import SlotDevices, TopologyReport, VmReleaseParams

MINE = SlotDevices(0, "GPU-0", nic="nic-0", nvme="nvme-0", extra_nvmes=("nvme-1",))
OTHER = SlotDevices(1, "GPU-1", nic="nic-1")


@pytest.fixture
def bounds(tmp_path: Path) -> Bounds:
    """A host on which one claim has, or had, slot 0."""
    records = Records(tmp_path / "tenancies")
    records.put(Tenancy("one", SLICE, "base", "vm-1", "ubuntu", (), (MINE,), "boot-id-1", 0))
    report = cast(TopologyReport, SimpleNamespace(slots=(), gpus=(), nics=(), nvmes=()))
    return Bounds(records, lambda: report, f"{tmp_path}/machines/")


def with_device(name: str) -> SlotDevices:
    """Another slot to which a device of the first has moved."""
    return replace(OTHER, nic=name) if name == "nic-0" else replace(OTHER, nvme=name)


@pytest.mark.parametrize("name", ["nic-0", "nvme-0", "nvme-1"])
def test_a_device_that_has_moved_to_another_slot_is_still_its_claims(
    bounds: Bounds, name: str
) -> None:
    bounds.refuse_taken("two", (OTHER,))
    with pytest.raises(BackendError, match="another machine"):
        bounds.refuse_taken("two", (with_device(name),))


@pytest.mark.parametrize("name", ["nic-0", "nvme-0", "nvme-1"])
def test_traces_on_a_device_go_with_it_to_another_slot(
    bounds: Bounds, tmp_path: Path, name: str
) -> None:
    records = Records(tmp_path / "tenancies")
    records.put(replace(records.all()[0], present=False))
    with pytest.raises(BackendError, match="not complete on slots") as refused:
        bounds.refuse_taken("two", (with_device(name),))
    assert refused.value.code == "residue_found"


@pytest.mark.parametrize("name", ["nic-0", "nvme-0", "nvme-1"])
def test_nobody_elses_device_is_cleaned(bounds: Bounds, name: str) -> None:
    slots = (with_device(name),)
    with pytest.raises(BackendError, match="another machine"):
        bounds.own_or_none(VmReleaseParams("two", 0, slots), slots)
