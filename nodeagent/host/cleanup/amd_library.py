"""Does AMD's library reset a GPU, and does it come back from that?

It asks the driver, which may keep it for ever: it is asked in a process of its own.
"""

from __future__ import annotations

import sys
from typing import Any

from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.commands import CommandError, run
from nodeagent.host.discovery.amd import ask, opened
from nodeagent.topology.pci import normal_address

# A hive of eight is reset one after the other.
_RESET_S = 300.0
_MARK = "reset: "
_INSIDE = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from nodeagent.host.cleanup.amd_library import main; main(sys.argv[1])"
)


def reset(address: str) -> str:
    """Have the library reset it; why that did not happen, '' where the library says it did."""
    with opened() as (library, reason):
        if library is None:
            return reason
        handles = ask(lambda: list(library.amdsmi_get_processor_handles())).value or []
        own = [handle for handle in handles if _address(library, handle) == address]
        if not own:
            return "it does not list the GPU"
        try:
            library.amdsmi_reset_gpu(own[0])
        except Exception as error:
            # One class of the binding's own per kind of failure; an older one lacks the call.
            return f"it refused: {type(error).__name__} {error}"[:200]
    return ""


def reset_apart(address: str, limit_s: float = _RESET_S) -> str:
    """The same in a process of its own. Raises StepFailed where it does not come back."""
    # By the paths of this process, whose packages it needs, wherever they lie.
    argv = [sys.executable, "-I", "-c", _INSIDE, address, *sys.path]
    try:
        ran = run(argv, timeout_s=limit_s)
    except CommandError as error:
        if error.code != "timed_out":
            return error.detail
        # The driver may be in the middle of it: nothing else is tried on the GPU.
        raise StepFailed(
            f"amdsmi has not come back from the reset of {address} in {limit_s:g} s: see dmesg"
        ) from error
    for line in reversed(ran.output.decode("utf-8", "replace").splitlines()):
        if line.startswith(_MARK):
            return line.removeprefix(_MARK)[:200]
    return f"it ended with {ran.status}: {ran.complaint}"[:200]


def main(address: str) -> None:
    """The process: it tells on its own line, since the library may write as well."""
    told = " ".join(reset(address).split())
    sys.stdout.write(f"\n{_MARK}{told}\n")


def _address(library: Any, handle: Any) -> str | None:
    return normal_address(str(ask(library.amdsmi_get_gpu_device_bdf, handle).value))
