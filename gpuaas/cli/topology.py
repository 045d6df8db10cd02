"""How is a node drawn as text? NUMA nodes, their switches, and on each the GPUs, NICs and slots."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuaas.cli import values
from gpuaas.cli.output import bold, paint
from gpuaas.cli.problems import Json

_FABRIC = "NVSwitch"
_TEE, _LAST, _BAR, _BLANK = "├─ ", "└─ ", "│  ", "   "


def draw(topology: Json, slots: Sequence[Json] = ()) -> Iterator[str]:
    """The lines of the picture.

    `topology` is a topology report (numa, switches, gpus, nics, nvmes, slots, findings);
    `slots` are the node's slots with their states, which outrank the report's own. What a
    report leaves open is shown as unknown, never as zero.
    """
    chart = _Chart(topology, slots)
    yield from chart.lines()


class _Chart:
    def __init__(self, topology: Json, slots: Sequence[Json]) -> None:
        self.topology = topology
        self.gpus = _entries(topology, "gpus")
        self.nics = _entries(topology, "nics")
        self.nvmes = _entries(topology, "nvmes")
        self.nvswitches = _entries(topology, "nvswitches")
        self.slots = _merged(_entries(topology, "slots"), slots)
        self.slots_of_nic: dict[str, list[Json]] = {}
        for slot in self.slots:
            for nic in (slot.get("nic"), *(slot.get("extra_nics") or [])):
                if nic is not None:
                    self.slots_of_nic.setdefault(str(nic), []).append(slot)

    def lines(self) -> Iterator[str]:
        """The whole picture."""
        if self.topology.get("known") is False:
            yield "unknown: the node has not reported its topology yet"
            return
        if self.topology.get("as_of"):
            yield f"as reported {values.age(self.topology['as_of'])} ago"
        numa_nodes = _entries(self.topology, "numa")
        yield self._heading(numa_nodes)
        for numa in numa_nodes:
            name = bold(f"NUMA {values.text(numa.get('id'))}")
            memory = values.size(numa.get("memory_bytes"))
            yield f"{name}  cpus {_cpus(numa.get('cpuset'))}  memory {memory}"
            yield from _tree(self._branches(numa.get("id")))
        known = {numa.get("id") for numa in numa_nodes}
        strays = [
            item for item in (*self.gpus, *self.nics, *self.nvmes) if item.get("numa") not in known
        ]
        if strays:
            yield bold("NUMA unknown")
            yield from _tree([(self._device(item), []) for item in strays])
        yield from self._links()
        yield from self._findings()

    def _heading(self, numa_nodes: Sequence[Json]) -> str:
        counts = [
            f"{len(numa_nodes)} NUMA",
            f"{len(self.gpus)} GPU",
            self._count("NIC", self.nics),
            self._count("NVMe", self.nvmes),
            f"{len(self.slots)} slot" + ("" if len(self.slots) == 1 else "s"),
        ]
        states: dict[str, int] = {}
        for slot in self.slots:
            state = _slot_state(slot)
            states[state] = states.get(state, 0) + 1
        shown = ", ".join(f"{count} {paint(state)}" for state, count in states.items())
        host = values.text(self.topology.get("hostname"))
        start = "" if host == "-" else f"{bold(host)}  "
        return start + " · ".join(counts) + (f" ({shown})" if shown else "")

    def _count(self, name: str, found: Sequence[Json]) -> str:
        unknown = not found and self._is_unknown(name)
        return f"{name} unknown" if unknown else f"{len(found)} {name}"

    def _is_unknown(self, name: str) -> bool:
        """Whether the report itself says that it does not know these devices."""
        codes = {finding.get("code") for finding in _entries(self.topology, "findings")}
        return f"{name.lower()}_unknown" in codes

    def _branches(self, numa: Any) -> list[tuple[str, list[str]]]:
        """The NUMA node's devices, those under one switch together."""
        branches: dict[str, tuple[str, list[str]]] = {}
        for item in (*self.gpus, *self.nics, *self.nvmes):
            if item.get("numa") != numa:
                continue
            switch = item.get("switch")
            if switch is None:
                branches[f"device {id(item)}"] = (self._device(item), [])
                continue
            label = f"switch {values.text(switch)}"
            branches.setdefault(label, (label, []))[1].append(self._device(item))
        return list(branches.values())

    def _device(self, item: Json) -> str:
        if any(item is gpu for gpu in self.gpus):
            return self._gpu(item)
        if any(item is nic for nic in self.nics):
            return self._nic(item)
        return f"NVMe {_label(item)}  {values.size(item.get('size_bytes'))}"

    def _gpu(self, gpu: Json) -> str:
        index = values.text(gpu.get("index"))
        model = values.text(gpu.get("model") or "model unknown")
        memory = gpu.get("memory_bytes")
        parts = [
            f"GPU {index}",
            model,
            values.size(memory) if memory is not None else "memory unknown",
            values.text(gpu.get("uuid") or "uuid unknown"),
        ]
        slot = self._slot_of(gpu)
        if slot is None:
            return "  ".join([*parts, "no slot"])
        state = _slot_state(slot)
        parts.append(paint(state, f"[slot {values.text(_slot_index(slot))}: {state}]"))
        return "  ".join(parts)

    def _nic(self, nic: Json) -> str:
        users = self.slots_of_nic.get(str(nic.get("id")), [])
        numbers = ",".join(values.text(_slot_index(slot)) for slot in users)
        modes = {str(slot.get("nic_mode") or "unknown") for slot in users}
        if not users:
            use = "used by no slot"
        elif len(users) > 1 or "shared" in modes:
            use = f"shared by slots {numbers}"
        else:
            use = f"{modes.pop()} to slot {numbers}"
        kind = values.text(nic.get("kind") or "kind unknown")
        name = f" ({values.text(nic['name'])})" if nic.get("name") else ""
        return f"NIC {_label(nic)}{name}  {kind}  {values.speed(nic.get('speed_mbps'))}  {use}"

    def _slot_of(self, gpu: Json) -> Json | None:
        for slot in self.slots:
            uuid = slot.get("gpu_uuid")
            if uuid is not None and uuid == gpu.get("uuid"):
                return slot
            if slot.get("gpu_index") is not None and slot.get("gpu_index") == gpu.get("index"):
                return slot
        return None

    def _links(self) -> Iterator[str]:
        if self.nvswitches:
            yield f"{bold('NVSwitch')}  {len(self.nvswitches)} devices"
        links = _entries(self.topology, "nvlinks")
        if not links:
            yield f"{bold('NVLink')}  {'unknown' if self._is_unknown('NVLink') else 'none'}"
            return
        yield bold("NVLink")
        reach: dict[str, dict[str, int | None]] = {}
        for link in links:
            near, far = self._end(link.get("from")), self._end(link.get("to"))
            if near == _FABRIC:
                near, far = far, near
            ends, count = reach.setdefault(near, {}), link.get("count")
            known = ends.get(far, 0)
            ends[far] = known + count if known is not None and isinstance(count, int) else None
        alike: dict[str, list[str]] = {}
        for near, ends in reach.items():
            text = ", ".join(f"{far} x{count}" if count else far for far, count in ends.items())
            alike.setdefault(text, []).append(near)
        for text, nears in alike.items():
            yield f"  {_listed(nears)} - {text}"

    def _end(self, pci: Any) -> str:
        """A link's end by the name a person knows; the switches count as one fabric."""
        for gpu in self.gpus:
            if gpu.get("pci") == pci:
                return f"GPU {values.text(gpu.get('index'))}"
        if any(switch.get("pci") == pci for switch in self.nvswitches):
            return _FABRIC
        return values.text(pci)

    def _findings(self) -> Iterator[str]:
        findings = _entries(self.topology, "findings")
        if findings:
            yield bold("Findings")
        for finding in findings:
            device = values.text(finding.get("device"))
            where = "" if device == "-" else f"{device}: "
            code = values.text(finding.get("code"))
            yield f"  {paint('warn', code)}  {where}{values.text(finding.get('detail'))}"


def _tree(branches: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    for position, (label, children) in enumerate(branches):
        last = position == len(branches) - 1
        yield (_LAST if last else _TEE) + label
        stem = _BLANK if last else _BAR
        for place, child in enumerate(children):
            yield stem + (_LAST if place == len(children) - 1 else _TEE) + child


def _entries(value: Mapping[str, Any], name: str) -> list[Json]:
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _merged(reported: Sequence[Json], known: Sequence[Json]) -> list[Json]:
    """The report's slots with the inventory's facts laid over them, by slot index."""
    by_index = {_slot_index(slot): dict(slot) for slot in reported}
    for slot in known:
        kept = by_index.setdefault(_slot_index(slot), {})
        kept.update({key: value for key, value in slot.items() if value is not None})
    return [by_index[index] for index in sorted(by_index, key=str)]


def _slot_index(slot: Json) -> Any:
    return slot.get("index") if slot.get("index") is not None else slot.get("slot_index")


def _slot_state(slot: Json) -> str:
    for key in ("display_state", "state"):
        value = slot.get(key)
        if value:
            return values.text(value)
    return "candidate"


def _listed(names: Sequence[str]) -> str:
    """`GPU 0-3,8` for five GPUs; other names as they are."""
    numbers = sorted(int(n[4:]) for n in names if n.startswith("GPU ") and n[4:].isdigit())
    others = [n for n in names if not (n.startswith("GPU ") and n[4:].isdigit())]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return ", ".join([*([f"GPU {spans}"] if spans else []), *others])


def _label(item: Json) -> str:
    return values.text(item.get("id") or item.get("pci") or item.get("index"))


def _cpus(cpuset: Any) -> str:
    return values.text(cpuset) if cpuset else "unknown"
