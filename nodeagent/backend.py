"""What must a kind of host be able to do for the agent?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    BurnInResult,
    Condition,
    ObservedDevices,
    ObservedVm,
    PartKind,
    ProvisionResult,
    SignedTask,
    SlotEvidence,
    TaskKind,
    TopologyReport,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
)

# Called with a step's name and a percentage, at least every few seconds while working. It renews
# the lease, and raises TaskCancelled or LeaseLost when the work should end.
Progress = Callable[[str, int], Awaitable[None]]


class BackendError(Exception):
    """The host could not do what it was asked, and knows why.

    code: lower_snake; detail: for people; retryable: whether the same task may succeed later;
    evidence: what was proven before it failed.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retryable: bool,
        evidence: tuple[SlotEvidence, ...] = (),
    ) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail
        self.retryable = retryable
        self.evidence = evidence


class HostUnknown(Exception):
    """What is on the host cannot be told now. Unknown is not absent: then nothing is reported."""


class TaskCancelled(Exception):
    """The control plane, or a release of the same allocation, asks this work to end."""


class LeaseLost(Exception):
    """The task is no longer ours; whatever comes of it changes nothing."""


class HostRebooted(Exception):
    """The host went down under the work. Only a simulated host can say so: a real one dies too."""


@dataclass(frozen=True)
class Observation:
    """What is on the host now."""

    vms: tuple[ObservedVm, ...]
    devices: ObservedDevices
    conditions: tuple[Condition, ...]
    intended_use: str | None = None


class Backend(Protocol):
    """One kind of host. Every operation may be repeated: twice has the effect of once."""

    @property
    def hostname(self) -> str:
        """The host's own name."""

    @property
    def capabilities(self) -> frozenset[TaskKind]:
        """The task kinds this host can do."""

    @property
    def ready(self) -> bool:
        """Whether a task may begin now; where not, none is asked for, and all else goes on."""

    @property
    def part_kinds(self) -> frozenset[PartKind]:
        """The kinds of parts of a GPU that this host can make and clean."""

    def boot_id(self) -> str:
        """Changes with every boot."""

    def facts(self) -> dict[str, Any]:
        """A few plain facts for the join, at most 32."""

    def topology(self) -> TopologyReport:
        """How the devices are wired, as last read; what a task's devices are checked against."""

    async def observe(self) -> Observation:
        """VMs, devices and conditions, read now; what is slow to tell keeps nothing else waiting.

        One look at a time, and none is given that a discovery has overtaken.
        """

    async def believes(self, control_key: str) -> bool | None:
        """Whether whoever does the work as root takes what this key (base64) has signed.

        None where nobody says. Raises HostUnknown.
        """

    async def take(self, task: SignedTask) -> None:
        """Have a task that is about to begin checked again by whoever does the work as root.

        Raises BackendError when it is refused there: then nothing of it may begin.
        """

    async def discover(self, progress: Progress) -> TopologyReport:
        """Read how the devices are wired. Raises BackendError."""

    async def provision(
        self,
        kind: TaskKind,
        params: VmProvisionParams | BaremetalProvisionParams,
        progress: Progress,
        signed: SignedTask,
    ) -> ProvisionResult:
        """Make the VM or install the host. signed: the task that says so. Raises BackendError."""

    async def burn_in(
        self, params: BurnInParams, progress: Progress, load: Unwanted, signed: SignedTask
    ) -> BurnInResult:
        """Put idle GPUs under load and say how they stood it, within the task's limit.

        load: by which task and lease of it. What `progress` raises goes through once the load has
        ended. Raises BackendError: burn_in_overdue where it did not end in time, load_not_over
        where it was to be stopped and could not be shown to have ended.
        """

    async def end_burn_in(self, load: Unwanted) -> None:
        """End this task's load; on return none runs, and no lease below the epoch begins one.

        Also a load that outlived its agent, or that was never there. Raises BackendError.
        """

    async def release(
        self,
        kind: TaskKind,
        params: VmReleaseParams | BaremetalReleaseParams,
        progress: Progress,
        signed: SignedTask,
    ) -> tuple[SlotEvidence, ...]:
        """Remove the tenant and clean its slots; the evidence says what was done to each slot.

        Raises BackendError when a step failed.
        """
