"""How is an NVMe device erased, and shown to be?

By the device's own Sanitize command where it has one, otherwise by Format with a secure erase.
Capabilities and progress are read in the NVMe specification's binary form, which does not change
with the version of the tool: Identify Controller bytes 328-331 are SANICAP (bit 0 crypto erase,
bit 1 block erase, bit 2 overwrite); log page 0x81 begins with SPROG and SSTAT, whose low three bits
say how the last sanitise ended (NVM Express Base Specification 2.0, figures 275 and 290).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.commands import CommandError, Ran, run

# In order of preference: bit of SANICAP, action of the command, name for the evidence.
_ACTIONS = ((1, 2, "block_erase"), (0, 4, "crypto_erase"), (2, 3, "overwrite"))
_COMMAND_S = 60.0
_FORMAT_S = 1800.0
_MOST_S = 6 * 3600.0
_POLL_S = 2.0
_IN_PROGRESS, _DONE = 2, (1, 4)
_PATH = re.compile(r"c\d+n")
_CONTROLLER = re.compile(r"nvme\d{1,4}")


def controller_of(device: Path) -> str:
    """The name of the controller at a PCI device's sysfs folder. Raises StepFailed."""
    found = [one.name for one in (device / "nvme").glob("nvme*") if _CONTROLLER.fullmatch(one.name)]
    if len(found) != 1:
        raise StepFailed(f"{device.name} has no NVMe controller: its driver is not bound")
    return found[0]


def namespaces_of(device: Path) -> list[str]:
    """The names of a controller's block devices, such as nvme0n1.

    A disk with a second port is listed by its path, such as nvme0c0n1, which has no device file.
    """
    found = {one.name for one in (device / "nvme").glob("nvme*/nvme*n*")}
    return sorted({_PATH.sub("n", name) for name in found})


class NvmeEraser:
    """Erases by the nvme program. sleep: how to wait between looks at the progress."""

    def __init__(self, tool: Path, sleep: Callable[[float], None] = time.sleep) -> None:
        self._tool = tool
        self._sleep = sleep

    def erase(self, device: Path) -> str:
        """Erase all namespaces of a PCI device; gives how. Raises StepFailed."""
        controller = controller_of(device)
        identity = self._nvme("id-ctrl", f"/dev/{controller}", "--output-format=binary")
        if len(identity.output) < 332:
            raise StepFailed(f"{controller} does not say what it can do")
        able = int.from_bytes(identity.output[328:332], "little")
        for bit, action, name in _ACTIONS:
            if able >> bit & 1:
                self._sanitise(controller, action)
                return f"nvme_sanitize_{name}"
        spaces = namespaces_of(device)
        if not spaces:
            raise StepFailed(f"{controller} has no namespace that could be formatted")
        for space in spaces:
            self._nvme("format", f"/dev/{space}", "--ses=1", "--force", timeout_s=_FORMAT_S)
        return "nvme_format_user_data_erase"

    def _sanitise(self, controller: str, action: int) -> None:
        self._nvme("sanitize", f"/dev/{controller}", f"--sanact={action}")
        waited = 0.0
        while waited < _MOST_S:
            log = self._nvme(
                "get-log", f"/dev/{controller}", "--log-id=0x81", "--log-len=20", "--raw-binary"
            )
            if len(log.output) < 4:
                raise StepFailed(f"{controller} does not say how far it is")
            status = int.from_bytes(log.output[2:4], "little") & 0b111
            if status in _DONE:
                return
            if status != _IN_PROGRESS:
                raise StepFailed(f"{controller}: the sanitise ended with status {status}")
            self._sleep(_POLL_S)
            waited += _POLL_S
        raise StepFailed(f"{controller}: the sanitise did not end within {_MOST_S / 3600:g} hours")

    def _nvme(self, *arguments: str, timeout_s: float = _COMMAND_S) -> Ran:
        try:
            ran = run([str(self._tool), *arguments], timeout_s=timeout_s)
        except CommandError as error:
            raise StepFailed(f"nvme {arguments[0]}: {error.detail}") from error
        if ran.status != 0:
            raise StepFailed(f"nvme {arguments[0]} ended with {ran.status}: {ran.complaint}")
        return ran
