"""The stand-in library, and trees as a host's kernel shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.nvml import Nvml
from tests.nodeagent.host_facts.fake import FakeNvml, build


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; loaded under NVIDIA's name, so that the real binding finds it."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A healthy host with two GPUs."""
    scenario = tmp_path / "scenario"
    monkeypatch.setenv("FAKE_NVML_SCENARIO", str(scenario))
    return FakeNvml(fake_library, scenario).play()


@pytest.fixture
def nvml() -> Nvml:
    """A door to the library."""
    return Nvml()
