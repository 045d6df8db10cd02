"""What holds for every document and every host, not only for those we thought of?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.protocol import (
    CompleteRequest,
    DeviceMode,
    FailRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaseAnswer,
    LeaseRequest,
    Message,
    ObservedReport,
    RenewRequest,
    SignedTask,
    TaskEnvelope,
    TaskKind,
    TopologyReport,
    WireError,
    canonical_json,
    load_json,
    parse_params,
    parse_result,
)
from nodeagent.protocol.cpus import cpu_list, cpu_set
from nodeagent.topology.cpus import divide, parse_mask, sibling_units
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.load import load_topology
from nodeagent.topology.slots import topology_report
from tests.topologies import topology_file

T = TypeVar("T")
EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MESSAGES: list[type[Message]] = [
    JoinRequest,
    RenewRequest,
    LeaseRequest,
    LeaseAnswer,
    HeartbeatRequest,
    CompleteRequest,
    FailRequest,
    ObservedReport,
    SignedTask,
    TaskEnvelope,
    TopologyReport,
]
NAMES = sorted({name for message in MESSAGES for name in message.__dataclass_fields__})  # type: ignore[attr-defined]  # every message is a dataclass
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["slice.vm_release", "GPU-1", "0-3", "a" * 44])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)


def tried(call: Callable[..., T], *arguments: Any) -> tuple[T | None, Any]:
    """The value, or the refusal; any other exception is a failure."""
    try:
        return call(*arguments), None
    except (WireError, TopologyError) as error:
        return None, error


@EXAMPLES
@given(st.sampled_from(MESSAGES), values)
def test_any_value_is_parsed_or_refused_with_a_pointer(kind: type[Message], value: Any) -> None:
    message, error = tried(kind.from_json, value)
    if message is not None:
        assert kind.from_json(message.to_json()) == message
    else:
        assert error.pointer == "" or error.pointer.startswith("/")
        assert error.code
        assert error.detail


@EXAMPLES
@given(st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    value, error = tried(load_json, body)
    if error is None:
        assert load_json(json.dumps(value)) == value
    else:
        assert error.code


@EXAMPLES
@given(st.sampled_from(list(TaskKind)), values)
def test_any_parameters_and_results_are_parsed_or_refused(kind: TaskKind, value: Any) -> None:
    for parse in (parse_params, parse_result):
        message, error = tried(parse, kind, value)
        if message is not None:
            assert parse(kind, message.to_json()) == message
        else:
            assert error.pointer.startswith(("/params", "/result"))


whole = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@EXAMPLES
@given(whole)
def test_canonical_json_is_a_fixed_point(value: Any) -> None:
    text, error = tried(canonical_json, value)
    if text is None:
        assert error.code == "bad_characters"
        return
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@EXAMPLES
@given(st.sets(st.integers(0, 600), max_size=200))
def test_cpu_lists_and_masks_say_the_same(cpus: set[int]) -> None:
    assert cpu_set(cpu_list(cpus)) == cpus
    mask = sum(1 << cpu for cpu in cpus)
    words = [mask >> 32 * place & 0xFFFFFFFF for place in range(19)]
    text = ",".join(f"{word:08x}" for word in reversed(words))
    assert parse_mask(text) == frozenset(cpus)


@EXAMPLES
@given(st.sets(st.integers(0, 300), max_size=128), st.integers(1, 16))
def test_cpus_are_divided_without_overlap_and_without_rest(cpus: set[int], parts: int) -> None:
    units = sibling_units(frozenset(cpus), [])
    divided = divide(units, parts)
    if divided is None:
        assert len(units) < parts
        return
    assert sorted(cpu for part in divided for cpu in part) == sorted(cpus)
    assert all(divided)
    for unit in units:
        assert sum(not part.isdisjoint(unit) for part in divided) == 1


CLASSES = ["0x030200", "0x020700", "0x020000", "0x010802", "0x068000", "0x060400", "", "0x0604"]


@st.composite
def trees(draw: st.DrawFn, depth: int = 0) -> str:
    """Some PCI devices, nested, with addresses that may repeat."""
    parts = []
    for _ in range(draw(st.integers(0, 4 if depth else 6))):
        address = f"{draw(st.integers(0, 2)):04x}:{draw(st.integers(0, 40)):02x}:00.0"
        code = draw(st.sampled_from(CLASSES))
        inside = draw(trees(depth + 1)) if depth < 3 and code in ("0x060400", "") else ""
        parts.append(f'<pci busid="{address}" class="{code}">{inside}</pci>')
    return "".join(parts)


@st.composite
def hosts(draw: st.DrawFn) -> str:
    """An NCCL file of some host."""
    cpus = []
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 16))
        mask = f"{(1 << count) - 1:x}" + ",00000000" * number
        cpus.append(f'<cpu numaid="{number}" affinity="{mask}">{draw(trees())}</cpu>')
    return f'<system version="1">{"".join(cpus)}</system>'


@EXAMPLES
@given(hosts())
def test_slots_of_any_host_are_a_fair_division(text: str) -> None:
    report = topology_report(load_topology(text.encode()), "host")
    assert TopologyReport.from_json(report.to_json()) == report
    assert sorted(slot.gpu_index for slot in report.slots) == [gpu.index for gpu in report.gpus]
    exclusive: dict[str, int] = {}
    elsewhere: set[str] = set()
    for slot in report.slots:
        for mode, devices in (
            (slot.nic_mode, (slot.nic, *slot.extra_nics)),
            (slot.nvme_mode, (slot.nvme, *slot.extra_nvmes)),
        ):
            for device in filter(None, devices):
                if mode is DeviceMode.EXCLUSIVE:
                    exclusive[device] = exclusive.get(device, 0) + 1
                else:
                    elsewhere.add(device)
    assert all(count == 1 for count in exclusive.values())
    assert not elsewhere & set(exclusive)
    numa_of = {nic.id: nic.numa for nic in report.nics}
    numa_of.update({nvme.id: nvme.numa for nvme in report.nvmes})
    for slot in report.slots:
        for device in filter(None, (slot.nic, slot.nvme, *slot.extra_nics)):
            assert numa_of[device] == slot.numa
    for node in report.numa:
        taken = [cpu_set(s.cpuset) for s in report.slots if s.numa == node.id and s.cpuset]
        union = frozenset[int]().union(*taken)
        assert sum(map(len, taken)) == len(union)
        if taken:
            assert union == cpu_set(node.cpuset or "")


@EXAMPLES
@given(hosts())
def test_the_order_of_a_file_does_not_change_its_slots(text: str) -> None:
    turned = text.replace("</cpu><cpu", "</cpu>\n<cpu")
    head, *cpus = turned.split("\n")
    first = head.index("<cpu")
    lines = [head[first:], *cpus]
    lines[-1] = lines[-1].removesuffix("</system>")
    other = head[:first] + "".join(reversed(lines)) + "</system>"
    one, two = (topology_report(load_topology(part.encode()), "host") for part in (text, other))
    if any(finding.code == "duplicate_device" for finding in one.findings):
        return
    assert [(slot.numa, slot.nic, slot.cpuset) for slot in one.slots] == [
        (slot.numa, slot.nic, slot.cpuset) for slot in two.slots
    ]


SEEDS = [
    topology_file("azure-ncv4-topo.xml").read_bytes(),
    topology_file("hwloc-power8gpudistances.xml").read_bytes(),
]


@EXAMPLES
@given(st.sampled_from(SEEDS), st.data())
def test_a_damaged_file_is_read_or_refused(content: bytes, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 60))
    damaged = content[:begin] + data.draw(st.binary(max_size=20)) + content[begin + length :]
    topology, error = tried(load_topology, damaged)
    if topology is None:
        assert error.code
    else:
        report = topology_report(topology, "host")
        assert TopologyReport.from_json(report.to_json()) == report
