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

P, A, U = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN
RECOVERY = "field.230"
Lines = dict[str, str | None]
CLUSTER = "0123456789abcdef0123456789abcdef"
CLUSTER_UUID = "01234567-89ab-cdef-0123-456789abcdef"


def records(nvml: Nvml) -> list[GpuRecord]:
    """What is read in one session."""
    with nvml.session() as session:
        return read_gpus(session)


def reading(record: GpuRecord, name: str) -> Fact[Any]:
    """A field of a record or one of its facts."""
    found: Fact[Any] = getattr(record, name, None) or record.facts[name]
    return found


# (what, lines of the scenario, GPU, field, presence, value or reason)
SCENARIOS: list[tuple[str, Lines, int, str, Presence, object]] = [
    ("a plain UUID", {}, 0, "uuid", P, uuid_of(0)),
    ("a UUID of words", {"gpu.0.uuid": "N/A"}, 0, "uuid", U, "sentinel"),
    ("an empty UUID", {"gpu.0.uuid": ""}, 0, "uuid", U, "sentinel"),
    ("a UUID with blanks", {"gpu.0.uuid": "GPU 1 2 3 4 5"}, 0, "uuid", U, "bad_uuid"),
    ("a short UUID", {"gpu.0.uuid": "GPU-1"}, 0, "uuid", U, "bad_uuid"),
    ("a UUID with a slash", {"gpu.0.uuid": "../../etc/passwd"}, 0, "uuid", U, "bad_uuid"),
    (
        "a UUID of zeros",
        {"gpu.0.uuid": "GPU-00000000-0000-0000-0000-000000000000"},
        0,
        "uuid",
        U,
        "blank_uuid",
    ),
    (
        "a UUID that is no text",
        {"gpu.0.uuid": "GPU-\\xff\\xfe123456"},
        0,
        "uuid",
        U,
        "unreadable_text",
    ),
    ("no UUID at all", {"gpu.0.uuid": None}, 0, "uuid", A, "not_supported"),
    ("a UUID refused", {"error.0.nvmlDeviceGetUUID": "4"}, 0, "uuid", U, "no_permission"),
    ("a UUID too late", {"error.0.nvmlDeviceGetUUID": "10"}, 0, "uuid", U, "timeout"),
    ("the neighbour of a bad one", {"gpu.0.uuid": "N/A"}, 1, "uuid", P, uuid_of(1)),
    (
        "a GPU that is lost",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "15"},
        0,
        "uuid",
        U,
        "gpu_lost",
    ),
    (
        "its memory too",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "15"},
        0,
        "memory_bytes",
        U,
        "gpu_lost",
    ),
    ("its mode too", {"error.0.nvmlDeviceGetHandleByIndex_v2": "15"}, 0, "mig_mode", U, "gpu_lost"),
    (
        "the one beside it",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "15"},
        1,
        "uuid",
        P,
        uuid_of(1),
    ),
    (
        "a reset needed",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "16"},
        0,
        "handle",
        U,
        "reset_required",
    ),
    (
        "a loose power plug",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "8"},
        0,
        "handle",
        U,
        "insufficient_power",
    ),
    (
        "an interrupt problem",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "11"},
        0,
        "handle",
        U,
        "irq_issue",
    ),
    (
        "no permission for it",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "4"},
        0,
        "handle",
        U,
        "no_permission",
    ),
    (
        "an inforom destroyed",
        {"error.0.nvmlDeviceGetSerial": "14"},
        0,
        "serial",
        U,
        "corrupted_inforom",
    ),
    (
        "lost while being read",
        {"error.0.nvmlDeviceGetMemoryInfo": "15"},
        0,
        "memory_bytes",
        U,
        "gpu_lost",
    ),
    ("an unknown error", {"error.0.nvmlDeviceGetName": "999"}, 0, "name", U, "nvml_unknown"),
    ("an error of the future", {"error.0.nvmlDeviceGetName": "77"}, 0, "name", U, "nvml_error_77"),
    ("a name", {}, 0, "name", P, "NVIDIA H100 80GB HBM3"),
    ("a name with a tab", {"gpu.0.name": "NVIDIA\\x09H100"}, 0, "name", U, "unreadable_text"),
    ("a name with an escape", {"gpu.0.name": "\\x1b[31mH100"}, 0, "name", U, "unreadable_text"),
    ("a name of no language", {"gpu.0.name": "\\xc3\\x28"}, 0, "name", U, "unreadable_text"),
    ("a name of words", {"gpu.0.name": "Unknown Error"}, 0, "name", U, "sentinel"),
    ("a name with markup", {"gpu.0.name": "<script>"}, 0, "name", P, "<script>"),
    ("an address", {}, 0, "pci", P, "0000:1a:00.0"),
    ("an address in a far domain", {"gpu.0.pci": "0001FFFF:1A:00.0"}, 0, "pci", P, "1ffff:1a:00.0"),
    ("an address of words", {"gpu.0.pci": "N/A"}, 0, "pci", U, "unreadable_address"),
    ("an empty address", {"gpu.0.pci": ""}, 0, "pci", U, "unreadable_address"),
    ("no address", {"gpu.0.pci": None}, 0, "pci", A, "not_supported"),
    ("memory", {}, 0, "memory_bytes", P, 80 * 2**30),
    ("no memory", {"gpu.0.memory": "0"}, 0, "memory_bytes", U, "out_of_range"),
    ("memory of all ones", {"gpu.0.memory": str(2**64 - 1)}, 0, "memory_bytes", U, "sentinel"),
    ("memory of 32 ones", {"gpu.0.memory": str(2**32 - 1)}, 0, "memory_bytes", U, "sentinel"),
    ("memory beyond reason", {"gpu.0.memory": str(2**55)}, 0, "memory_bytes", U, "out_of_range"),
    (
        "memory not told",
        {"error.0.nvmlDeviceGetMemoryInfo": "3"},
        0,
        "memory_bytes",
        A,
        "not_supported",
    ),
    (
        "memory not ready",
        {"error.0.nvmlDeviceGetMemoryInfo": "27"},
        0,
        "memory_bytes",
        U,
        "not_ready",
    ),
    ("no serial number", {"gpu.0.serial": None}, 0, "serial", A, "not_supported"),
    ("a serial number of nothing", {"gpu.0.serial": "0"}, 0, "serial", U, "sentinel"),
    ("a serial number", {}, 0, "serial", P, "1653022000000"),
    ("ECC on", {}, 0, "ecc_mode", P, "enabled"),
    ("ECC off", {"gpu.0.ecc": "0"}, 0, "ecc_mode", P, "disabled"),
    ("no ECC", {"gpu.*.ecc": None}, 0, "ecc_mode", A, "not_supported"),
    ("no rows remapped", {}, 0, "remapped_rows_correctable", P, 0),
    ("rows remapped", {"gpu.0.remapped": "3 2 0 0"}, 0, "remapped_rows_uncorrectable", P, 2),
    ("a remap waiting", {"gpu.0.remapped": "0 1 1 0"}, 0, "remapped_rows_pending", P, 1),
    ("a remap failed", {"gpu.0.remapped": "0 1 0 1"}, 0, "remapped_rows_failed", P, 1),
    (
        "rows of all ones",
        {"gpu.0.remapped": "4294967295 0 0 0"},
        0,
        "remapped_rows_correctable",
        U,
        "sentinel",
    ),
    ("rows not kept", {"gpu.*.remapped": None}, 0, "remapped_rows_failed", A, "not_supported"),
    ("MIG off", {}, 0, "mig_mode", P, "disabled"),
    ("MIG on", {"gpu.0.mig": "1 1"}, 0, "mig_mode", P, "enabled"),
    ("MIG on after a reset", {"gpu.0.mig": "0 1"}, 0, "mig_mode_pending", P, "enabled"),
    ("MIG not known to the card", {"gpu.*.mig": None}, 0, "mig_mode", A, "not_supported"),
    (
        "MIG not to be told",
        {"error.0.nvmlDeviceGetMigMode": "4"},
        0,
        "mig_mode",
        U,
        "no_permission",
    ),
    ("nothing to recover", {}, 0, "recovery_action", P, "none"),
    ("a reset asked for", {f"gpu.0.{RECOVERY}": "1 1"}, 0, "recovery_action", P, "gpu_reset"),
    ("a reboot asked for", {f"gpu.0.{RECOVERY}": "1 2"}, 0, "recovery_action", P, "node_reboot"),
    ("a drain asked for", {f"gpu.0.{RECOVERY}": "3 4"}, 0, "recovery_action", P, "drain_and_reset"),
    (
        "an action of the future",
        {f"gpu.0.{RECOVERY}": "1 42"},
        0,
        "recovery_action",
        U,
        "unknown_action",
    ),
    (
        "an action of all ones",
        {f"gpu.0.{RECOVERY}": "1 4294967295"},
        0,
        "recovery_action",
        U,
        "unknown_action",
    ),
    ("no such field", {"gpu.*.field.230": None}, 0, "recovery_action", A, "not_supported"),
    ("a field with an error", {f"gpu.0.{RECOVERY}": "1 0 15"}, 0, "recovery_action", U, "gpu_lost"),
    (
        "a field of a new type",
        {f"gpu.0.{RECOVERY}": "9 1"},
        0,
        "recovery_action",
        U,
        "unreadable_answer",
    ),
    ("no shared domain known to the card", {}, 0, "fabric", A, "not_supported"),
    ("a domain", {"gpu.0.fabric": f"{CLUSTER} 7 3 0"}, 0, "fabric", P, (CLUSTER_UUID, 7)),
    (
        "the first clique of a domain",
        {"gpu.*.fabric": f"{CLUSTER} 0 3 0"},
        1,
        "fabric",
        P,
        (CLUSTER_UUID, 0),
    ),
    (
        "a domain of zeros, the host's own",
        {"gpu.0.fabric": f"{'0' * 32} 0 3 0"},
        0,
        "fabric",
        A,
        "single_host",
    ),
    (
        "a domain not begun",
        {"gpu.0.fabric": f"{CLUSTER} 7 1 0"},
        0,
        "fabric",
        U,
        "fabric_not_started",
    ),
    (
        "a domain half way",
        {"gpu.0.fabric": f"{CLUSTER} 7 2 0"},
        0,
        "fabric",
        U,
        "fabric_in_progress",
    ),
    (
        "a domain that the state denies",
        {"gpu.0.fabric": f"{CLUSTER} 7 0 0"},
        0,
        "fabric",
        A,
        "not_supported",
    ),
    (
        "a state of the future",
        {"gpu.0.fabric": f"{CLUSTER} 7 9 0"},
        0,
        "fabric",
        U,
        "unknown_state",
    ),
    (
        "a registration that failed",
        {"gpu.0.fabric": f"{CLUSTER} 7 3 999"},
        0,
        "fabric",
        U,
        "fabric_nvml_unknown",
    ),
    (
        "a registration of a lost GPU",
        {"gpu.0.fabric": f"{CLUSTER} 7 3 15"},
        0,
        "fabric",
        U,
        "fabric_gpu_lost",
    ),
    (
        "a clique of all ones",
        {"gpu.0.fabric": f"{CLUSTER} 4294967295 3 0"},
        0,
        "fabric",
        U,
        "sentinel",
    ),
    (
        "a domain not to be told",
        {"error.0.nvmlDeviceGetGpuFabricInfoV": "4"},
        0,
        "fabric",
        U,
        "no_permission",
    ),
    (
        "a domain asked for in an older way",
        {"error.0.nvmlDeviceGetGpuFabricInfoV": "25", "gpu.0.fabric": f"{CLUSTER} 7 3 0"},
        0,
        "fabric",
        P,
        (CLUSTER_UUID, 7),
    ),
    (
        "a domain of a GPU that is lost",
        {"error.0.nvmlDeviceGetHandleByIndex_v2": "15"},
        0,
        "fabric",
        U,
        "gpu_lost",
    ),
    (
        "fields refused",
        {"error.0.nvmlDeviceGetFieldValues": "25"},
        0,
        "recovery_action",
        U,
        "argument_version_mismatch",
    ),
]


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
    assert len(SCENARIOS) >= 60
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
        (1, "3g.39gb"),
        (5, "1g.10gb"),
    ]
    assert [one.uuid.value for one in first.mig] == [
        "MIG-11111111-1111-1111-1111-111111111111",
        "MIG-22222222-2222-2222-2222-222222222222",
    ]
    assert second.mig == ()


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
