"""A stand-in for NVIDIA's library: built once, and told by a scenario what to answer."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "fixtures" / "nvml" / "fake_nvml.c"
NAME = "libnvidia-ml.so.1"


def build(folder: Path, hidden: Sequence[str] = ()) -> Path:
    """The library in a folder, without the symbols that are hidden."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc: NVML scenarios are NOT tested here")
    target = folder / NAME
    link = ["-Wl,-soname," + NAME]
    if hidden:
        script = folder / "symbols.map"
        script.write_text("{ global: *; local: " + " ".join(f"{one};" for one in hidden) + " };")
        link.append(f"-Wl,--version-script={script}")
    command = [compiler, "-O1", "-fPIC", "-shared", *link, "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


class FakeNvml:
    """The loaded library and the scenario it plays."""

    def __init__(self, library: Path, scenario: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._path = scenario
        self.lines: dict[str, str] = {}

    @property
    def open_count(self) -> int:
        """How often it is open now."""
        return int(self._library.fake_nvml_open())

    @property
    def event_sets(self) -> int:
        """How many event sets are open now."""
        return int(self._library.fake_nvml_event_sets())

    def play(self, *, gpus: int = 2) -> FakeNvml:
        """A healthy host of that many H100s; `change` changes it."""
        self.lines = {
            "driver": "550.90.07",
            "cuda": "12040",
            "count": str(gpus),
            "gpu.*.name": "NVIDIA H100 80GB HBM3",
            "gpu.*.vbios": "96.00.74.00.01",
            "gpu.*.part": "692-2G520-0200-000",
            "gpu.*.memory": str(80 * 2**30),
            "gpu.*.ecc": "1",
            "gpu.*.remapped": "0 0 0 0",
            "gpu.*.mig": "0 0",
            "gpu.*.field.230": "1 0",
        }
        for number in range(gpus):
            self.lines[f"gpu.{number}.uuid"] = uuid_of(number)
            self.lines[f"gpu.{number}.serial"] = f"165302200000{number}"
            self.lines[f"gpu.{number}.pci"] = pci_of(number)
        return self._write()

    def _write(self) -> FakeNvml:
        text = "".join(f"{key}={value}\n" for key, value in self.lines.items())
        self._path.write_text(text)
        return self

    def change(self, lines: Mapping[str, str | None]) -> FakeNvml:
        """Replace lines of the scenario; None takes one out."""
        for key, value in lines.items():
            if value is None:
                self.lines.pop(key, None)
            else:
                self.lines[key] = value
        return self._write()


def uuid_of(number: int) -> str:
    """The UUID of a scenario's GPU."""
    return f"GPU-{number:08x}-1111-2222-3333-444444444444"


def pci_of(number: int) -> str:
    """Its address as NVML writes it: eight digits of domain, capitals."""
    return f"00000000:{number + 0x1A:02X}:00.0"
