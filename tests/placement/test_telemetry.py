"""Is what hosts measure kept, bounded, and never taken for more than it is?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from nodeagent.host.facts import present, unknown
from nodeagent.protocol import GpuProcess, TelemetryReport
from nodeagent.protocol import TelemetryWindow as Window
from nodeagent.telemetry.window import WindowBuilder
from placement import selectors
from placement.models import NodeTelemetry, TelemetryWindow
from placement.services.telemetry import RING, telemetry_take
from tests.builders import BOOT, Host, a_catalogue, a_host, a_tenant, drive_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    """A ready host."""
    a_catalogue()
    return a_host("h1")


def window(seq: int, load: int = 50, *, pids: tuple[int, ...] = (), xid: int = 13) -> Window:
    """A minute of the host's first two GPUs."""
    builder = WindowBuilder("host", seq * 60, seq, driver="550.1", cuda="12.4")
    builder.add("GPU-h1-0", {"gpu_utilisation": present(load)})
    builder.add("GPU-h1-1", {"gpu_utilisation": unknown("gpu_lost")})
    builder.add_xid("GPU-h1-1", xid, seq * 60)
    builder.set_processes([GpuProcess("GPU-h1-0", pid, 1024) for pid in pids])
    return builder.close(seq * 60 + 60)


def take(host: Host, *windows: Window, lost: int = 0, boot: str = BOOT) -> None:
    """A report comes in."""
    message = TelemetryReport(boot, windows, lost)
    telemetry_take(node=host.fresh(), message=TelemetryReport.from_json(message.to_json()))


def test_a_host_that_never_measured_is_stale_and_has_no_number(host: Host) -> None:
    shown = selectors.telemetry_of(host.fresh())
    assert (shown["stale"], shown["as_of"], shown["devices"]) == (True, None, [])


def test_the_last_window_is_shown_with_its_validity(host: Host) -> None:
    take(host, window(1, 20), window(2, 87), lost=3)
    shown = selectors.telemetry_of(host.fresh())
    first, second = shown["devices"]
    assert (first["slot_index"], first["series"][0]["last"]) == (0, 87)
    assert (second["series"][0]["last"], second["series"][0]["reason"]) == (None, "gpu_lost")
    assert (shown["driver"], shown["lost"], shown["stale"]) == ("550.1", 3, False)
    assert shown["xids"][0]["xid"] == 13
    history = selectors.telemetry_history(host.fresh(), "gpu_utilisation")
    mine = [point["last"] for point in history if point["device"] == "GPU-h1-0"]
    assert mine == [20, 87]


def test_the_same_window_twice_is_one(host: Host) -> None:
    for _ in range(3):
        take(host, window(1), window(2))
    assert TelemetryWindow.objects.count() == 2


def test_a_report_that_is_sent_again_loses_nothing_twice(host: Host) -> None:
    take(host, window(4), window(5), lost=3)
    take(host, window(4), window(5), window(6), lost=3)
    assert selectors.telemetry_of(host.fresh())["lost"] == 3
    take(host, window(9), lost=2)
    assert selectors.telemetry_of(host.fresh())["lost"] == 5


def test_an_agent_that_begins_to_count_anew_is_not_taken_for_a_repetition(host: Host) -> None:
    take(host, window(1), window(2))
    restarted = WindowBuilder("host", 9000, 1)
    take(host, restarted.close(9060))
    assert TelemetryWindow.objects.count() == 3
    take(host, window(1), boot="boot-00000002")
    assert TelemetryWindow.objects.count() == 4


def test_a_host_keeps_its_last_hour_and_no_more(host: Host) -> None:
    for seq in range(1, RING + 21, 5):
        take(host, *(window(seq + k, load=(seq + k) % 100) for k in range(5)))
    rows = TelemetryWindow.objects.filter(node=host.node)
    assert rows.count() == RING
    assert NodeTelemetry.objects.count() == 1
    kept = sorted(rows.values_list("seq", flat=True))
    assert kept == list(range(kept[-1] - RING + 1, kept[-1] + 1))
    last = selectors.telemetry_of(host.fresh())["devices"][0]["series"][0]["last"]
    assert last == kept[-1] % 100


def test_old_numbers_are_stale(host: Host) -> None:
    take(host, window(1))
    rows = TelemetryWindow.objects.filter(node=host.node)
    rows.update(received_at=rows.get().received_at - timedelta(minutes=4))
    shown = selectors.telemetry_of(host.fresh())
    assert shown["stale"]
    assert shown["age_s"] >= 240


def test_a_process_on_a_gpu_that_nobody_holds_is_use_beyond_the_claim(host: Host) -> None:
    take(host, window(1, pids=(4242,)))
    (process,) = selectors.telemetry_of(host.fresh())["processes"]
    assert (process["pid"], process["beyond_claim"]) == (4242, True)
    a_tenant().order(slots=8)
    drive_all()
    (process,) = selectors.telemetry_of(host.fresh())["processes"]
    assert process["beyond_claim"] is False


def test_a_time_that_no_calendar_has_does_no_harm(host: Host) -> None:
    take(host, WindowBuilder("host", 2**40 - 1).close(2**40))
    assert TelemetryWindow.objects.get().ended_at.year == 9999


def test_telemetry_changes_nothing_of_the_host_itself(host: Host) -> None:
    before = host.fresh()
    take(host, window(1))
    after = host.fresh()
    names = ("state", "health", "generation", "free_mask", "schedulable", "observed_seq", "version")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]
