"""Is it known which of AMD's GPUs are in one hive, whatever came and went in it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.protocol import CleanupStep
from tests.nodeagent.host_facts.amd_host import CARD, MATE, AmdHost

HIVE_FILE = "xgmi_hive_info/xgmi_hive_id"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AmdHost:
    """Two GPUs in one hive."""
    monkeypatch.setattr("nodeagent.host.cleanup.amd._LET_GO_S", 0.05)
    monkeypatch.setattr("nodeagent.host.cleanup.pci._SETTLE_S", 0.05)
    return AmdHost(tmp_path, monkeypatch, hive=True)


@pytest.mark.parametrize("went", [CARD, MATE])
def test_the_hive_is_whole_after_one_of_it_went_and_came_back(host: AmdHost, went: str) -> None:
    host.kernel.unbind(went)
    host.kernel.bind(went, "amdgpu")
    for number, mate in enumerate((MATE, CARD)):
        with pytest.raises(StepFailed, match=f"is in one hive with {mate}"):
            host.devices.vet([host.slot(number)])
    host.do(CleanupStep.GPU_SCRUBBED)
    assert [one for one, _ in host.kernel.resets] == [CARD, MATE]


@pytest.mark.parametrize("told", ["", "a hive", "0", "-1"])
def test_a_hive_whose_number_cannot_be_read_is_unknown(host: AmdHost, told: str) -> None:
    (host.bus.folder(CARD) / HIVE_FILE).write_text(f"{told}\n")
    for number in (0, 1):
        with pytest.raises(StepFailed, match="is not known: hive_unreadable"):
            host.devices.vet([host.slot(number)])


def test_a_link_to_a_hive_that_is_gone_is_no_word_of_being_in_none(host: AmdHost) -> None:
    hive = host.bus.folder(CARD) / "xgmi_hive_info"
    hive.rename(hive.with_name("gone"))
    with pytest.raises(StepFailed, match="is not known: hive_unreadable"):
        host.devices.vet([host.slot(1)])
