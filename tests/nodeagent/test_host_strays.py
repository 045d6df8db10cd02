"""What is told of the devices that a machine has which nobody asked for?"""

from __future__ import annotations

import pytest

from nodeagent.host.config import HostConfig
from nodeagent.host.discovery import DeviceSight
from nodeagent.host.helper.wire import Inspection, SeenStray, SeenTenancy, Trust
from nodeagent.host.seeing import observation
from nodeagent.protocol import ObservedDevice, ObservedDevices, Presence, TopologyReport, VmState
from tests.nodeagent.test_host_spec import report as report


def clean(report: TopologyReport, seen: Inspection) -> dict[int | None, bool | None]:
    """By slot, what is said of its GPU."""
    gpus = {slot.gpu_uuid: slot.index for slot in report.slots}
    sight = tuple(ObservedDevice(gpu, Presence.PRESENT) for gpu in gpus if gpu is not None)
    devices = ObservedDevices(gpus=sight, nics=(), nvmes=())
    config = HostConfig(server="https://control.example.org", name="host-1")
    said = observation(seen, Trust(True, ""), DeviceSight(devices, ()), report, (), config, {})
    return {gpus[one.id]: one.clean for one in said.devices.gpus}


@pytest.mark.parametrize("slots", [(2,), (2, 3)])
def test_whether_what_it_has_is_clean_nobody_knows(
    report: TopologyReport, slots: tuple[int, ...]
) -> None:
    stray = SeenStray("process 77", slots, False)
    told = clean(report, Inspection((), (stray,), True, "a guest ran"))
    assert {index for index, one in told.items() if one is None} == set(slots)
    assert set(told.values()) == {None, True}


def test_traces_of_an_earlier_tenant_are_told_all_the_same(report: TopologyReport) -> None:
    gpu = next(slot.gpu_uuid for slot in report.slots if slot.index == 2)
    assert gpu is not None
    left = SeenTenancy("a", "gpuaas-a", VmState.STOPPED, (2,), False, "i", "u", "", 0, gpus=(gpu,))
    stray = SeenStray("process 77", (2,), False)
    assert clean(report, Inspection((left,), (stray,), True, "a guest ran"))[2] is False
