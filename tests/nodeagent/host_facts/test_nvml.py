"""Does every odd answer of the driver become the right record, through the real binding?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.facts import Fact
from nodeagent.host.nvml import GpuRecord, Nvml, NvmlBusy, NvmlUnavailable, read_gpus
from nodeagent.protocol import Presence
from tests.nodeagent.host_facts.fake import FakeNvml, build, uuid_of
from tests.nodeagent.host_facts.scenarios import CLUSTER, CLUSTER_UUID, SCENARIOS, Lines

P, A, U = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN


def records(nvml: Nvml) -> list[GpuRecord]:
    """What is read in one session."""
    with nvml.session() as session:
        return read_gpus(session)


def reading(record: GpuRecord, name: str) -> Fact[Any]:
    """A field of a record or one of its facts."""
    found: Fact[Any] = getattr(record, name, None) or record.facts[name]
    return found


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("lines", "gpu", "name", "presence", "expected"),
    [pytest.param(*rest, id=what) for what, *rest in SCENARIOS],
)
def test_an_answer_becomes_its_record(
    fake: FakeNvml,
    nvml: Nvml,
    lines: Lines,
    gpu: int,
    name: str,
    presence: Presence,
    expected: object,
) -> None:
    fake.change(lines)
    found = reading(records(nvml)[gpu], name)
    assert found.presence is presence
    assert (found.value if presence is P else found.reason) == expected
    assert fake.open_count == 0


def test_there_are_enough_scenarios() -> None:
    assert len(SCENARIOS) >= 100
    assert len({what for what, *_ in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("9", "driver_not_loaded"),
        ("18", "version_mismatch"),
        ("4", "no_permission"),
        ("15", "gpu_lost"),
        ("999", "nvml_unknown"),
    ],
)
@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_a_library_that_cannot_be_used_says_why(
    fake: FakeNvml, nvml: Nvml, call: str, code: str, reason: str
) -> None:
    fake.change({f"error.{call}": code})
    with pytest.raises(NvmlUnavailable) as refused:
        records(nvml)
    assert refused.value.reason == reason
    assert (fake.open_count, nvml.open_sessions) == (0, 0)


@pytest.mark.gcc
@pytest.mark.parametrize("calls", range(0, 64, 3))
def test_a_gpu_that_is_lost_in_the_middle_of_a_read_keeps_what_it_said_and_no_more(
    fake: FakeNvml, nvml: Nvml, calls: int
) -> None:
    fake.change(
        {f"gpu.{n}.link.{k}": "00000000:05:00.0 2" for n in range(2) for k in range(18)}
        | {"gpu.0.lost_after": str(calls), "gpu.*.fabric": f"{CLUSTER} 7 3 0", "gpu.*.mig": "1 1"}
    )
    lost, whole = records(nvml)
    facts: list[Fact[Any]] = [
        lost.uuid,
        lost.pci,
        lost.name,
        lost.memory_bytes,
        lost.fabric,
        *lost.facts.values(),
    ]
    assert {one.reason for one in facts if one.value is None} <= {"gpu_lost"}
    assert all(link.active.reason in ("", "gpu_lost") for link in lost.links)
    assert (lost.fabric.value is None) is (lost.fabric.reason == "gpu_lost")
    assert (whole.uuid.value, len(whole.links), whole.fabric.value) == (
        uuid_of(1),
        18,
        (CLUSTER_UUID, 7),
    )
    assert (fake.open_count, nvml.open_sessions) == (0, 0)


@pytest.mark.gcc
@pytest.mark.parametrize("code", ["2", "28", "15"])
def test_a_gpu_pulled_out_between_the_count_and_the_read_is_unknown(
    fake: FakeNvml, nvml: Nvml, code: str
) -> None:
    fake.change({"error.1.nvmlDeviceGetHandleByIndex_v2": code})
    first, pulled = records(nvml)
    assert first.handle.value is True
    assert pulled.handle.presence is U
    assert {fact.presence for fact in pulled.facts.values()} == {U}


@pytest.mark.gcc
def test_sixteen_gpus_are_sixteen_records(fake: FakeNvml, nvml: Nvml) -> None:
    fake.play(gpus=16)
    assert [one.uuid.value for one in records(nvml)] == [uuid_of(n) for n in range(16)]


@pytest.mark.gcc
def test_a_host_without_gpus_has_no_record(fake: FakeNvml, nvml: Nvml) -> None:
    fake.change({"count": "0"})
    assert records(nvml) == []


@pytest.mark.gcc
def test_every_mig_instance_is_named_wherever_it_is(fake: FakeNvml, nvml: Nvml) -> None:
    fake.change(
        {
            "gpu.0.mig": "1 1",
            "gpu.0.mig.1": "MIG-11111111-1111-1111-1111-111111111111 1 0 3 40192",
            "gpu.0.mig.4": "MIG-22222222-2222-2222-2222-222222222222 5 0 1 9856",
        }
    )
    first, second = records(nvml)
    assert [(one.gpu_instance.value, one.profile.value) for one in first.mig] == [
        (1, "3g.40gb"),
        (5, "1g.10gb"),
    ]
    assert [one.uuid.value for one in first.mig] == [
        "MIG-11111111-1111-1111-1111-111111111111",
        "MIG-22222222-2222-2222-2222-222222222222",
    ]
    assert second.mig == ()


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("card_mib", "slices", "instance_mib", "name"),
    [
        (40_960, 1, 4_864, "1g.5gb"),
        (40_960, 1, 9_856, "1g.10gb"),
        (40_960, 3, 19_968, "3g.20gb"),
        (81_920, 7, 80_896, "7g.80gb"),
        (81_559, 1, 9_984, "1g.10gb"),
        (95_830, 3, 47_488, "3g.47gb"),
        (143_771, 1, 16_384, "1g.18gb"),
        (143_771, 2, 33_280, "2g.35gb"),
        (143_771, 3, 71_424, "3g.71gb"),
        (183_359, 1, 22_016, "1g.23gb"),
        (24_576, 1, 5_952, "1g.6gb"),
        (24_576, 1, 30_000, None),
        (24_576, 1, 0, None),
    ],
)
def test_an_instance_is_called_as_its_board_is_sold(
    fake: FakeNvml, nvml: Nvml, card_mib: int, slices: int, instance_mib: int, name: str | None
) -> None:
    instance = f"MIG-11111111-1111-1111-1111-111111111111 1 0 {slices} {instance_mib}"
    fake.change(
        {"gpu.0.mig": "1 1", "gpu.0.memory": str(card_mib * 2**20), "gpu.0.mig.0": instance}
    )
    assert records(nvml)[0].mig[0].profile.value == name


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("line", "pci", "kind"),
    [
        ("00000000:05:00.0 2", "0000:05:00.0", "switch"),
        ("00000000:1B:00.0 0", "0000:1b:00.0", "gpu"),
        ("00000000:1B:00.0 1", "0000:1b:00.0", "cpu"),
        ("00000000:1B:00.0 255", "0000:1b:00.0", None),
        ("nonsense 2", None, "switch"),
    ],
)
def test_a_link_says_where_it_leads(
    fake: FakeNvml, nvml: Nvml, line: str, pci: str | None, kind: str | None
) -> None:
    fake.change({"gpu.0.link.0": line, "gpu.0.link.1": "down"})
    up, down = records(nvml)[0].links
    assert (up.active.value, up.remote_pci.value, up.remote_kind.value) == (True, pci, kind)
    assert (down.active.value, down.remote_pci.presence) == (False, A)


@pytest.mark.gcc
def test_links_end_where_the_driver_says_so(fake: FakeNvml, nvml: Nvml) -> None:
    fake.change({"gpu.0.link.2": "00000000:05:00.0 2"})
    assert [link.number for link in records(nvml)[0].links] == [2]
    assert records(nvml)[1].links == ()


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("hidden", "field"),
    [
        ("nvmlDeviceGetRemappedRows", "remapped_rows_failed"),
        ("nvmlDeviceGetMigMode", "mig_mode"),
        ("nvmlDeviceGetFieldValues", "recovery_action"),
        ("nvmlDeviceGetUUID", "uuid"),
        ("nvmlDeviceGetGpuFabricInfo*", "fabric"),
    ],
)
def test_an_old_driver_without_a_symbol_costs_that_field_only(
    tmp_path: Path, fake: FakeNvml, hidden: str, field: str
) -> None:
    """In a process of its own, by the loader's path, as on a host."""
    build(tmp_path, [hidden])
    program = (
        "from nodeagent.host.nvml import Nvml, read_gpus\n"
        "with Nvml().session() as session:\n"
        "    record = read_gpus(session)[0]\n"
        f"fact = getattr(record, {field!r}, None) or record.facts[{field!r}]\n"
        "print(fact.presence.value, fact.reason, record.name.value)\n"
    )
    assert _run(program, tmp_path) == "unknown symbol_missing NVIDIA H100 80GB HBM3"


@pytest.mark.gcc
def test_a_host_without_the_library_says_so(tmp_path: Path) -> None:
    program = (
        "from nodeagent.host.nvml import Nvml, NvmlUnavailable\n"
        "try:\n"
        "    with Nvml().session():\n"
        "        print('open')\n"
        "except NvmlUnavailable as error:\n"
        "    print(error.reason)\n"
    )
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert _run(program, tmp_path) == "library_missing"


def _run(program: str, libraries: Path) -> str:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.gcc
def test_no_handle_is_open_while_a_device_is_reconfigured(fake: FakeNvml, nvml: Nvml) -> None:
    entered, leave = threading.Event(), threading.Event()

    def reader() -> None:
        with nvml.session():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=reader)
    thread.start()
    entered.wait(10)
    assert fake.open_count == 1
    with pytest.raises(NvmlBusy), nvml.released(wait_s=0.05):
        pytest.fail("somebody still held it")
    threading.Timer(0.05, leave.set).start()
    with nvml.released(wait_s=10):
        assert (fake.open_count, nvml.open_sessions) == (0, 0)
        with pytest.raises(NvmlUnavailable) as refused, nvml.session():
            pytest.fail("a new session began during the reconfiguration")
        assert refused.value.reason == "released"
    thread.join(10)
    with nvml.session():
        assert fake.open_count == 1


@pytest.mark.gcc
def test_a_slow_call_holds_back_its_own_reader_only(fake: FakeNvml, nvml: Nvml) -> None:
    fake.change({"sleep.0.nvmlDeviceGetName": "300"})
    slow = threading.Thread(target=lambda: records(nvml))
    slow.start()
    began = time.monotonic()
    fake_again = Nvml()
    with fake_again.session() as session:
        assert session.count() == 2
    assert time.monotonic() - began < 0.25
    slow.join(10)
