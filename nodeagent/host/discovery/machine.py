"""What do CPUs, memory and virtualisation of a host look like?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.protocol import NumaNode
from nodeagent.protocol.cpus import cpu_list, cpu_set
from nodeagent.topology.model import Draft

_NODE = re.compile(r"node(\d{1,4})")
_CPU = re.compile(r"cpu(\d{1,5})")
_HUGE = re.compile(r"hugepages-(\d{1,9})kB")
_TOTAL = re.compile(r"MemTotal:\s*(\d{1,15})\s*kB")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
# 64-bit Arm names its cores by number.
_PART = re.compile(r"^CPU implementer\s*:\s*(\w+)$.*?^CPU part\s*:\s*(\w+)$", re.M | re.S)
_UNTOLD: Fact[object] = unknown("not_told")
_MOST_NODE = 4095
_FLAGS = re.compile(r"^flags\s*:.*\b(vmx|svm)\b", re.MULTILINE)

Facts = dict[str, Fact[object]]


def add_numa(tree: Tree, draft: Draft) -> Facts:
    """Put NUMA nodes and cores into the draft; hugepages and distances come back as facts."""
    facts: Facts = {}
    folder = tree.path("sys/devices/system/node")
    nodes = map(_NODE.fullmatch, tree.names(folder))
    numbers = sorted(n for node in nodes if node and (n := int(node.group(1))) <= _MOST_NODE)
    if not numbers:
        draft.find("numa_implied", "the kernel lists no NUMA node; the machine is taken as one")
        _add_whole_machine(tree, draft)
        facts |= _hugepages(tree, None, "sys/kernel/mm/hugepages")
    cores = list(_cores(tree))
    for number in numbers[:256]:
        base = folder / f"node{number}"
        cpus = _cpus(tree.text(base / "cpulist"))
        meminfo = tree.text(base / "meminfo")
        total = _TOTAL.search(meminfo.value or "")
        memory = int(total.group(1)) * 1024 if total else None
        if cpus is None:
            draft.find("cpuset_unknown", f"the CPUs of NUMA node {number} are unknown")
        if memory is None:
            # None at all is told as zero, as of nodes that a board keeps for what may be plugged.
            draft.find("numa_memory_unknown", f"the memory of NUMA node {number} is unknown")
        draft.numa[number] = NumaNode(
            number, None if cpus is None else cpu_list(cpus), memory or None
        )
        draft.cores[number] = tuple(core for core in cores if cpus and core <= cpus)
        facts[f"numa{number}_distances"] = _plain(tree.text(base / "distance"))
        facts |= _hugepages(tree, number, f"sys/devices/system/node/node{number}/hugepages")
    return facts


def machine_facts(tree: Tree) -> Facts:
    """CPU sets, virtualisation and identity of the host itself."""
    system = tree.path("sys/devices/system/cpu")
    cpuinfo = tree.text(tree.path("proc/cpuinfo")).value or ""
    model = _MODEL.search(cpuinfo)
    part = _PART.search(cpuinfo)
    cpu: Fact[object] = present(f"implementer {part[1]} part {part[2]}") if part else _UNTOLD
    groups = len(tree.names(tree.path("sys/kernel/iommu_groups")))
    facts: Facts = {
        "cpu_model": present(model.group(1).strip()) if model else cpu,
        "cpus_online": _plain(tree.text(system / "online")),
        "cpus_isolated": _plain(tree.text(system / "isolated")),
        "cpus_effective": _plain(tree.text(tree.path("sys/fs/cgroup/cpuset.cpus.effective"))),
        "kernel": _plain(tree.text(tree.path("proc/sys/kernel/osrelease"))),
        "iommu": present(f"{groups} groups") if groups else absent("no_groups"),
        "kvm": present(True) if tree.exists("dev/kvm") else absent("no_device"),
        "cpu_virtualisation": present(True) if _FLAGS.search(cpuinfo) else unknown("not_told"),
        "vfio_pci": _module(tree, "vfio_pci"),
        "nvidia_driver": _plain(tree.text(tree.path("sys/module/nvidia/version"))),
        "amdgpu_driver": _module(tree, "amdgpu"),
        "fabric_manager": _fabric_manager(tree),
    }
    for name in ("product_name", "sys_vendor", "bios_version"):
        facts[name] = _plain(tree.text(tree.path("sys/class/dmi/id", name)))
    return facts


def memory_total(tree: Tree) -> int | None:
    """The machine's memory in bytes."""
    found = _TOTAL.search(tree.text(tree.path("proc/meminfo")).value or "")
    return int(found.group(1)) * 1024 if found else None


def _add_whole_machine(tree: Tree, draft: Draft) -> None:
    cpus = _cpus(tree.text(tree.path("sys/devices/system/cpu/online")))
    if cpus is None:
        draft.find("cpuset_unknown", "the CPUs of the machine are unknown")
    cpuset = None if cpus is None else cpu_list(cpus)
    draft.numa[0] = NumaNode(0, cpuset, memory_total(tree))
    draft.cores[0] = tuple(core for core in _cores(tree) if cpus and core <= cpus)


def _cores(tree: Tree) -> Iterator[frozenset[int]]:
    folder = tree.path("sys/devices/system/cpu")
    seen: set[frozenset[int]] = set()
    for name in tree.names(folder):
        if not _CPU.fullmatch(name):
            continue
        topology = folder / name / "topology"
        siblings = _cpus(tree.text(topology / "core_cpus_list")) or _cpus(
            tree.text(topology / "thread_siblings_list")
        )
        if siblings and siblings not in seen:
            seen.add(siblings)
            yield siblings


def _cpus(text: Fact[str]) -> frozenset[int] | None:
    try:
        return None if text.value is None else cpu_set(text.value)
    except ValueError:
        return None


def _hugepages(tree: Tree, number: int | None, place: str) -> Facts:
    prefix = "" if number is None else f"numa{number}_"
    facts: Facts = {}
    for name in tree.names(tree.path(place)):
        size = _HUGE.fullmatch(name)
        if size is None:
            continue
        for file, word in (("nr_hugepages", "total"), ("free_hugepages", "free")):
            count = tree.number(tree.path(place, name, file))
            facts[f"{prefix}hugepages_{size.group(1)}k_{word}"] = _plain(count)
    return facts


def _module(tree: Tree, name: str) -> Fact[object]:
    return present(True) if tree.exists("sys/module", name) else absent("not_loaded")


def _fabric_manager(tree: Tree) -> Fact[object]:
    """NVSwitch hosts need it; its pid file is what its unit writes."""
    for folder in ("run", "var/run"):
        if tree.exists(folder, "nvidia-fabricmanager/nv-fabricmanager.pid"):
            return present("running")
    return absent("no_pid_file")


def _plain(fact: Fact[str] | Fact[int]) -> Fact[object]:
    if fact.value is None:
        return Fact(fact.presence, None, fact.reason)
    return absent("empty") if fact.value == "" else present(fact.value)
