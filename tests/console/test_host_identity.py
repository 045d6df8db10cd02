"""Does a node's page show what is otherwise than approved and what was measured, and decide it?"""

from __future__ import annotations

import json
from dataclasses import replace

from nodeagent.host.facts import present, unknown
from nodeagent.protocol import TelemetryReport
from nodeagent.telemetry.window import WindowBuilder
from placement.models import Slot
from placement.services.slots import slots_take
from placement.services.telemetry import telemetry_take
from tests.builders import BOOT, OPERATOR, Host, a_report
from tests.console.conftest import Fleet


def without_last(host: Host) -> None:
    """The host's last GPU is reported no longer."""
    report = a_report(host.node.name)
    told = replace(report, gpus=report.gpus[:7], slots=report.slots[:7])
    node = host.fresh()
    node.topology = told.to_json()
    node.save(update_fields=["topology"])
    slots_take(node, told, actor=OPERATOR)


def test_a_vanished_card_is_shown_and_accepted_for_its_slot_alone(fleet: Fleet) -> None:
    without_last(fleet.host)
    browser = fleet.browser()
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "Otherwise than approved" in page
    assert "Accept for slot 7" in page
    address = "/console/nodes/host-1/slot/"
    browser.send(address, {"slot": "7", "do": "accept", "reason": "sent back"})
    assert Slot.objects.get(node=fleet.host.node, index=7).state == "retired"
    assert Slot.objects.filter(node=fleet.host.node, state="approved").count() == 7
    assert "Otherwise than approved" not in browser.get("/console/nodes/host-1/").content.decode()


def test_a_reader_cannot_accept(fleet: Fleet) -> None:
    without_last(fleet.host)
    browser = fleet.browser().of(fleet.viewer)
    wish = {"slot": "7", "do": "accept", "reason": "x"}
    assert browser.send("/console/nodes/host-1/slot/", wish).status_code == 404
    assert Slot.objects.get(node=fleet.host.node, index=7).state == "blocked"


def test_measurements_are_shown_with_their_unit_or_their_reason(fleet: Fleet) -> None:
    builder = WindowBuilder("simulated", 0)
    values = {"gpu_utilisation": present(87), "power": present(512_400)}
    builder.add("GPU-host-1-0", {**values, "temperature": unknown("gpu_lost")})
    builder.add_xid("GPU-host-1-0", 79, 1)
    report = TelemetryReport(BOOT, (builder.close(60),))
    message = TelemetryReport.from_json(json.loads(json.dumps(report.to_json())))
    telemetry_take(node=fleet.host.fresh(), message=message)
    page = fleet.browser().get("/console/nodes/host-1/").content.decode()
    for text in ("87 %", "512 W", "unknown: gpu lost", "not measured", "simulated", "XID 79"):
        assert text in page
