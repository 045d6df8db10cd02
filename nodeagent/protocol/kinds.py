"""Which words does the protocol know: task kinds, cleanup steps, modes, failure codes?"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

SCHEMA_VERSION = 1
# Of agent and control plane alike: they are released together.
AGENT_VERSION = "0.3.0"
API_PREFIX = "/agent/v1"
HEADER_CREDENTIAL = "Gpuaas-Credential"
HEADER_SEQUENCE = "Gpuaas-Sequence"
HEADER_TIMESTAMP = "Gpuaas-Timestamp"
HEADER_SIGNATURE = "Gpuaas-Signature"
HEADER_AGENT_VERSION = "Agent-Version"
CLOCK_WINDOW_S = 300


class TaskKind(StrEnum):
    """Everything a node may be asked to do. An agent refuses any other kind."""

    DISCOVER = "slice.topology_discover"
    VM_PROVISION = "slice.vm_provision"
    VM_RELEASE = "slice.vm_release"
    BAREMETAL_PROVISION = "baremetal.provision"
    BAREMETAL_RELEASE = "baremetal.release"
    BURN_IN = "node.burn_in"


RELEASE_KINDS = frozenset({TaskKind.VM_RELEASE, TaskKind.BAREMETAL_RELEASE})
PROVISION_KINDS = frozenset({TaskKind.VM_PROVISION, TaskKind.BAREMETAL_PROVISION})


class CleanupStep(StrEnum):
    """One thing that must be proven of a slot before another tenant may have it."""

    VM_GONE = "vm_gone"
    DEVICES_DETACHED = "devices_detached"
    GPU_SCRUBBED = "gpu_scrubbed"
    NO_PROCESS = "no_process"
    NO_MOUNT = "no_mount"
    NVME_SANITISED = "nvme_sanitised"
    NIC_RESET = "nic_reset"
    GPU_ERROR_FREE = "gpu_error_free"
    OS_WIPED = "os_wiped"
    PART_DESTROYED = "part_destroyed"


_SLICE_STEPS = (
    CleanupStep.VM_GONE,
    CleanupStep.DEVICES_DETACHED,
    CleanupStep.GPU_SCRUBBED,
    CleanupStep.NO_PROCESS,
    CleanupStep.NO_MOUNT,
    CleanupStep.NVME_SANITISED,
    CleanupStep.NIC_RESET,
    CleanupStep.GPU_ERROR_FREE,
)

# In the order in which they are done. Every slot of a release must show every step.
REQUIRED_CLEANUP_STEPS = MappingProxyType(
    {
        TaskKind.VM_RELEASE: _SLICE_STEPS,
        TaskKind.BAREMETAL_RELEASE: (*_SLICE_STEPS, CleanupStep.OS_WIPED),
    }
)

# Beside them for a slot of which only a part was handed over, last: there is nothing left of it.
PART_CLEANUP_STEPS = (CleanupStep.PART_DESTROYED,)

# A step's method may be "not_applicable" only for these, and only where the slot is known to have
# no such device. On an unknown slot the agent has to do something that proves it.
NOT_APPLICABLE = "not_applicable"
STEPS_THAT_MAY_NOT_APPLY = frozenset({CleanupStep.NVME_SANITISED, CleanupStep.NIC_RESET})


# How the id of the root of a CPU's PCI buses begins. It joins devices, and is no switch.
HOST_BRIDGE = "host-bridge-"


class NicKind(StrEnum):
    """What a network device speaks."""

    ETHERNET = "ethernet"
    INFINIBAND = "infiniband"
    EFA = "efa"
    UNKNOWN = "unknown"


class DeviceMode(StrEnum):
    """How a slot holds a NIC or NVMe. `none` is proven absence, `unknown` is not."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    NONE = "none"
    UNKNOWN = "unknown"


class UuidSource(StrEnum):
    """Where a GPU's UUID comes from."""

    NVML = "nvml"
    AMDSMI = "amdsmi"
    # Read earlier; the driver that could say it again does not hold the device now.
    REMEMBERED = "remembered"
    FILE = "file"
    SIMULATED = "simulated"
    UNKNOWN = "unknown"


class VmState(StrEnum):
    """What the agent sees of a VM or of a bare-metal tenancy on its host."""

    DEFINED = "defined"
    RUNNING = "running"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Presence(StrEnum):
    """Observation has three values."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class RefusalCode(StrEnum):
    """Why an agent refused a task without running anything of it."""

    UNSUPPORTED_TASK = "unsupported_task"
    SCHEMA_INVALID = "schema_invalid"
    SIGNATURE_INVALID = "signature_invalid"
    WRONG_NODE = "wrong_node"
    PARAMS_MISMATCH = "params_mismatch"
    STALE_EPOCH = "stale_epoch"
    TASK_EXPIRED = "task_expired"
    TASK_NOT_YET_VALID = "task_not_yet_valid"
    WRONG_BOOT = "wrong_boot"
    DEVICE_MISMATCH = "device_mismatch"
    DEVICE_IN_USE = "device_in_use"
    ALLOCATION_RELEASED = "allocation_released"
    # By a real host's privileged helper alone, which checks the same again and these.
    TASK_REPLAYED = "task_replayed"
    TASK_MISSING = "task_missing"
    VERB_NOT_ALLOWED = "verb_not_allowed"
    CONTROL_KEYS_UNUSABLE = "control_keys_unusable"
    HELPER_TOO_OLD = "helper_too_old"


class FailureCode(StrEnum):
    """Why a task that was begun did not succeed."""

    BACKEND_ERROR = "backend_error"
    CLEANUP_FAILED = "cleanup_failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    RESIDUE_FOUND = "residue_found"
    PREREQUISITE_MISSING = "prerequisite_missing"
    PART_UNSUPPORTED = "part_unsupported"
    BURN_IN_OVERDUE = "burn_in_overdue"
    LOAD_NOT_OVER = "load_not_over"
