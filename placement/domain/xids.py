"""What does an error number of NVIDIA's driver mean, and what do we do about it?  Data.

Meanings and actions follow NVIDIA's XID catalogue of 2025-10-29; the policies are ours. A number
that is not listed is watched: it is no reason to take a GPU away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

IGNORE = "ignore"
WATCH = "watch"
TENANT = "tenant"
RESTART = "restart"
AT_RELEASE = "at_release"
RESET = "reset"
FOLLOW = "follow"
REBOOT = "reboot"
REPAIR = "repair"
POLICIES: Final = {
    IGNORE: "nothing follows",
    WATCH: "the GPU is watched",
    TENANT: "the tenant's own program did it",
    RESTART: "the workload has to be restarted; the GPU is well",
    AT_RELEASE: "the GPU is reset when it is released",
    RESET: "no new work on the GPU until it was reset",
    FOLLOW: "no new work on the GPU until the driver says what it needs",
    REBOOT: "no new work on the host until it has rebooted",
    REPAIR: "no new work on the GPU until somebody has repaired it",
}


@dataclass(frozen=True, slots=True)
class Xid:
    """One error number: in words, and what follows."""

    number: int
    meaning: str
    policy: str


_LISTED: Final = (
    Xid(13, "a program's graphics exception", TENANT),
    Xid(31, "a program's memory page fault", TENANT),
    Xid(43, "the GPU stopped a program's work", IGNORE),
    Xid(45, "a program's work was cleaned up early", IGNORE),
    Xid(46, "the GPU timed out", RESET),
    Xid(48, "an uncorrectable memory error", RESET),
    Xid(62, "the GPU's micro-controller halted", RESET),
    Xid(63, "a memory row is to be remapped", AT_RELEASE),
    Xid(64, "a memory row could not be remapped", REPAIR),
    Xid(74, "an NVLink error", RESET),
    Xid(79, "the GPU has fallen off the bus", REBOOT),
    Xid(92, "many corrected memory errors", WATCH),
    Xid(94, "a contained memory error", RESTART),
    Xid(95, "an uncontained memory error", RESET),
    Xid(109, "a context switch timed out", RESET),
    Xid(110, "a security fault", RESET),
    Xid(119, "the GPU's system processor did not answer", RESET),
    Xid(120, "an error of the GPU's system processor", RESET),
    Xid(121, "an error of the chip-to-chip link", WATCH),
    Xid(136, "link training failed", RESET),
    Xid(137, "an NVLink privilege error", WATCH),
    Xid(140, "an unrecovered memory error", RESET),
    Xid(143, "the GPU could not be initialised", RESET),
    *(Xid(number, "an error of an NVLink unit", RESET) for number in range(144, 151)),
    Xid(151, "a key rotation failed", RESTART),
    Xid(154, "the driver changed what it asks for", FOLLOW),
    Xid(155, "an NVLink error that its software defined", RESET),
    Xid(156, "a resource was retired", RESET),
    Xid(157, "a retirement failed", WATCH),
    Xid(158, "a fatal timeout", RESET),
    Xid(160, "a memory channel was retired", WATCH),
    Xid(161, "a memory channel could not be retired", WATCH),
    Xid(171, "detail of an uncorrectable error in device memory", WATCH),
    Xid(172, "detail of an uncorrectable error in on-chip memory", WATCH),
)
CATALOGUE: Final = {one.number: one for one in _LISTED}


def xid_of(number: int) -> Xid:
    """The entry of a number; an unlisted one is watched."""
    return CATALOGUE.get(number) or Xid(number, "an error that is not in the catalogue", WATCH)
