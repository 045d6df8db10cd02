"""Does what is placed outlive an upgrade from the first tables, and the way back?"""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection

from placement.domain.wiring import neighbours
from placement.models import Claim, CutSlot, Node
from tests.builders import (
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    state_of,
)
from tests.placement.odd_hosts import file_report
from tests.placement.test_odd_topologies import approved
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db(transaction=True)

FORMER = (
    ("placement", "0005"),
    ("admission", "0005"),
    ("tenants", "0006"),
    ("kernel", "0003"),
)


def laid_out() -> list[tuple[str, int]]:
    """Each node's layout and free slots, whatever columns its table has besides."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT layout, free_mask FROM placement_node ORDER BY num")
        return list(cursor.fetchall())


def test_what_is_placed_outlives_migrations_taken_back_and_made_again() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    held = acme.order(slots=2)
    host.work()
    before = laid_out()
    try:
        for app, name in FORMER:
            call_command("migrate", app, name, verbosity=0)
        [(layout, free)] = laid_out()
        assert {part.count(".") for part in layout.split("|")} == {2}
        assert free == before[0][1]
    finally:
        call_command("migrate", verbosity=0)
    assert laid_out() == before
    assert held.allocation_id is not None
    assert state_of(held.allocation_id) == "active"
    more = acme.order(slots=1)
    host.work()
    assert more.allocation_id is not None
    assert state_of(more.allocation_id) == "active"
    assert Claim.objects.filter(alone=0).count() == 3
    assert Node.objects.get().free_count == 5


def test_hosts_from_before_learn_the_switches_above_their_slots_and_forget_them_again() -> None:
    report = file_report(topology_file("rccl-topo_4p4h.xml"))
    a_catalogue()
    host = approved(report, 0, kept=True)
    now = host.fresh().layout
    assert now.count(":") == 16
    try:
        call_command("migrate", "placement", "0030", verbosity=0)
        before = host.fresh().layout
        assert ":" not in before
    finally:
        call_command("migrate", verbosity=0)
    again = host.fresh().layout
    count = len(report.slots)
    assert neighbours(again, count) == neighbours(now, count) != neighbours(before, count)
    assert [part.partition(":")[0] for part in again.split("|")] == [
        part.partition(":")[0] for part in now.split("|")
    ]


def test_parts_of_a_board_whose_slices_have_engines_say_which_are_in_use() -> None:
    a_catalogue()
    a_parts_catalogue()
    acme, host = a_tenant("acme"), a_host(parts=("mig",))
    cut_slots(host, "mig", 0)
    assert acme.order("h100.1g").allocation_id is not None
    CutSlot.objects.update(board="rtx-pro-6000", state=0b0_0100)
    claim = Claim.objects.get(part__isnull=False)
    assert claim.part is not None
    Claim.objects.filter(pk=claim.pk).update(part={**claim.part, "bits": 0b0_0100})
    try:
        call_command("migrate", "placement", "0031", verbosity=0)
        claim.refresh_from_db()
        assert (CutSlot.objects.get().state, claim.part["bits"]) == (0b0_0100, 0b0_0100)
    finally:
        call_command("migrate", verbosity=0)
    claim.refresh_from_db()
    assert (CutSlot.objects.get().state, claim.part["bits"]) == (0b0100_0_0100, 0b0100_0_0100)
