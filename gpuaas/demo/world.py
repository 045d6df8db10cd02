"""Who and what is in the demo?  Plain values, for the loader, the fleet and the story."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuaas.config import CHECKOUT

TOPOLOGY_FOLDER = CHECKOUT / "deploy" / "demo" / "topology"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with an account; ``role`` is empty for operators."""

    email: str
    name: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """A tenant with its people, its projects, and its envelope in slots per class."""

    slug: str
    name: str
    tier: str
    people: tuple[Person, ...]
    projects: tuple[str, ...]
    envelope: tuple[tuple[str, int], ...]

    @property
    def owner(self) -> Person:
        """The first of its people."""
        return self.people[0]


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One product that is a part of a GPU of the family."""

    sku: str
    title: str
    shape: str
    units_milli: int
    hour_micro: int
    profile: str = ""
    milli: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """Interchangeable hosts: what they are, from which topology file, and how they are sold.

    The facts that a topology file cannot know (model, memory) are told to the simulated host.
    """

    name: str
    title: str
    gpu_model: str
    gpu_memory_gib: int
    numa_memory_gib: int
    slots: int
    topology: str
    pool: str
    resource_class: str
    sku: str
    slot_hour_micro: int
    node_hour_micro: int
    exclusive_nic: bool
    blurb: str
    parts: tuple[PartPlan, ...] = ()
    nvlinks: tuple[tuple[int, int, int], ...] = ()
    """Links between two GPUs, and how many; where the file describes none."""
    nvswitch_links: int = 0
    """Links of each GPU to switches that join all; where the file describes none."""

    @property
    def topology_path(self) -> Path:
        """The file that its simulated hosts are made from."""
        return TOPOLOGY_FOLDER / self.topology


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One simulated host: its name, its family, what it is meant for, and where it stands."""

    name: str
    family: str
    intended: str = "any"
    zone: str = "zone-a"
    block: str = ""
    rack: str = ""
    cuts: tuple[tuple[int, str], ...] = ()
    """Slots that are sold in parts, and in which."""


OPERATORS = (
    Person("operator@platform.test", "Ona Perator"),
    Person("second@platform.test", "Sam Second"),
)
"""Two, so that what needs a second person can be seen to need one."""

TIERS = (
    # name, title, band, preemptible, protected run, availability ppm, provision target, isolation
    ("standard", "Standard", 1, False, 0, 990_000, 600, "vm"),
    ("premium", "Premium", 0, False, 0, 999_000, 300, "vm"),
    ("economy", "Economy", 2, True, 1800, 0, 1800, "shared"),
)

POOLS = (("default", "Default"), ("efa", "Shared fabric"), ("classic", "Older hosts"))

CLASSES = (
    ("h100-slot", "One slot of an H100 host"),
    ("a100-slot", "One slot of an A100 host"),
    ("a100-pcie-slot", "One slot of an A100 PCIe host"),
    ("v100-slot", "One slot of a V100 host"),
)

IMAGES = (
    ("ubuntu-24.04-cuda", "Ubuntu 24.04 with CUDA", ("gpu_slice",)),
    ("ubuntu-24.04-baremetal", "Ubuntu 24.04 for whole hosts", ("baremetal",)),
    ("rocky-9-cuda", "Rocky Linux 9 with CUDA", ("gpu_slice", "baremetal")),
)

FAMILIES = (
    FamilyPlan(
        name="h100-8",
        title="H100 SXM, 8 GPUs, a NIC for each",
        gpu_model="NVIDIA H100 80GB HBM3",
        gpu_memory_gib=80,
        numa_memory_gib=1024,
        slots=8,
        topology="azure-ndv5-topo.xml",
        pool="default",
        resource_class="h100-slot",
        sku="h100",
        slot_hour_micro=3_200_000,
        node_hour_micro=24_000_000,
        exclusive_nic=True,
        blurb="InfiniBand behind the same switch as each GPU.",
        nvswitch_links=18,
    ),
    FamilyPlan(
        name="a100-8",
        title="A100 SXM, 8 GPUs, a NIC for each",
        gpu_model="NVIDIA A100-SXM4-80GB",
        gpu_memory_gib=80,
        numa_memory_gib=480,
        slots=8,
        topology="azure-ndv4-topo.xml",
        pool="default",
        resource_class="a100-slot",
        sku="a100",
        slot_hour_micro=1_900_000,
        node_hour_micro=14_500_000,
        exclusive_nic=True,
        blurb="Two GPUs and two InfiniBand NICs on each NUMA node.",
        nvswitch_links=12,
        parts=(
            PartPlan("a100-1g", "A seventh of an A100", "mig", 125, 300_000, profile="1g.10gb"),
            PartPlan("a100-3g", "Half an A100", "mig", 500, 1_000_000, profile="3g.40gb"),
            PartPlan(
                "a100-quarter",
                "A quarter of an A100, shared by your own work",
                "gpu_share",
                250,
                450_000,
                milli=250,
                memory_mib=16_384,
            ),
        ),
    ),
    FamilyPlan(
        name="a100-pcie-4",
        title="A100 PCIe, 4 GPUs",
        gpu_model="NVIDIA A100 80GB PCIe",
        gpu_memory_gib=80,
        numa_memory_gib=220,
        slots=4,
        topology="azure-ncv4-topo.xml",
        pool="default",
        resource_class="a100-pcie-slot",
        sku="a100-pcie",
        slot_hour_micro=1_500_000,
        node_hour_micro=5_600_000,
        exclusive_nic=False,
        blurb="One GPU on each NUMA node, two and two joined by NVLink bridges.",
        nvlinks=((0, 1, 12), (2, 3, 12)),
    ),
    FamilyPlan(
        name="a100-efa-8",
        title="A100 SXM, 8 GPUs, a NIC for every two",
        gpu_model="NVIDIA A100-SXM4-40GB",
        gpu_memory_gib=40,
        numa_memory_gib=560,
        slots=8,
        topology="aws-p4d-24xl-topo.xml",
        pool="efa",
        resource_class="a100-slot",
        sku="a100-efa",
        slot_hour_micro=1_700_000,
        node_hour_micro=12_800_000,
        exclusive_nic=False,
        blurb="EFA is shared by two GPUs: a whole node has it alone.",
    ),
    FamilyPlan(
        name="v100-16",
        title="V100 SXM with NVSwitch, 16 GPUs",
        gpu_model="Tesla V100-SXM3-32GB",
        gpu_memory_gib=32,
        numa_memory_gib=750,
        slots=16,
        topology="hwloc-nvidiaDGX2.xml",
        pool="classic",
        resource_class="v100-slot",
        sku="v100",
        slot_hour_micro=700_000,
        node_hour_micro=10_400_000,
        exclusive_nic=False,
        blurb="Sixteen GPUs that see each other through twelve NVSwitches.",
    ),
)

HOSTS = (
    HostPlan("h100-01", "h100-8", "slices", "zone-a", "block-1", "rack-11"),
    HostPlan("h100-02", "h100-8", "any", "zone-a", "block-1", "rack-12"),
    HostPlan("h100-03", "h100-8", "any", "zone-a", "block-2", "rack-21"),
    HostPlan("a100-01", "a100-8", "any", "zone-a", "block-2", "rack-22"),
    HostPlan(
        "a100-02",
        "a100-8",
        "any",
        "zone-a",
        "block-2",
        "rack-22",
        cuts=((6, "mig"), (7, "share")),
    ),
    HostPlan("a100-03", "a100-8", "any", "zone-b", "block-3", "rack-31"),
    HostPlan("pcie-01", "a100-pcie-4", "slices", "zone-b", "block-3", "rack-32"),
    HostPlan("pcie-02", "a100-pcie-4", "slices", "zone-b", "block-3", "rack-32"),
    HostPlan("efa-01", "a100-efa-8", "any", "zone-b", "block-4", "rack-41"),
    HostPlan("efa-02", "a100-efa-8", "any", "zone-b", "block-4", "rack-42"),
    HostPlan("dgx2-01", "v100-16", "any", "zone-b", "block-5", "rack-51"),
    HostPlan("dgx2-02", "v100-16", "any", "zone-b", "block-5", "rack-51"),
)

TENANTS = (
    TenantPlan(
        slug="acme-robotics",
        name="Acme Robotics",
        tier="premium",
        people=(
            Person("owner@acme.test", "Ada Owner", "owner"),
            Person("admin@acme.test", "Abe Admin", "admin"),
            Person("member@acme.test", "Mia Member", "member"),
            Person("viewer@acme.test", "Vic Viewer", "viewer"),
            Person("billing@acme.test", "Bea Billing", "billing"),
        ),
        projects=("default", "research"),
        envelope=(("h100-slot", 24), ("a100-slot", 16)),
    ),
    TenantPlan(
        slug="helix-genomics",
        name="Helix Genomics",
        tier="standard",
        people=(
            Person("owner@helix.test", "Hana Owner", "owner"),
            Person("member@helix.test", "Hugo Member", "member"),
        ),
        projects=("default", "folding"),
        envelope=(("h100-slot", 8), ("a100-slot", 24), ("a100-pcie-slot", 8)),
    ),
    TenantPlan(
        slug="lumen-studio",
        name="Lumen Studio",
        tier="economy",
        people=(Person("owner@lumen.test", "Lena Owner", "owner"),),
        projects=("default",),
        envelope=(("h100-slot", 2), ("a100-slot", 8), ("v100-slot", 32)),
    ),
)


def family_of(host: HostPlan) -> FamilyPlan:
    """The family of a host."""
    return next(family for family in FAMILIES if family.name == host.family)


def accounts() -> tuple[Person, ...]:
    """Everybody who can sign in, operators first."""
    return (*OPERATORS, *(person for tenant in TENANTS for person in tenant.people))
