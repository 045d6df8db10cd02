"""Does what code from before writes beside the present code become right by itself?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.models import Event
from placement.audits.parts import parts
from placement.domain.mig import board_named, state_of
from placement.domain.parts import placement_of
from placement.domain.wiring import neighbours
from placement.models import Claim, CutSlot, Node
from placement.services.mends import parts_sweep
from tests.builders import a_catalogue, a_host, a_parts_catalogue, a_tenant, cut_slots
from tests.placement.odd_hosts import file_report
from tests.placement.test_odd_topologies import approved
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db

RTX = board_named("rtx-pro-6000")


def a_part(profile: str, start: int, size: int, bits: int) -> None:
    """The only claim on the only cut slot, as it may stand on a board that can draw."""
    CutSlot.objects.update(board="rtx-pro-6000", state=bits)
    kept = {"kind": "mig", "profile": profile, "start": start, "size": size, "bits": bits}
    span = f"{{[{start * 250},{(start + size) * 250})}}"
    CutSlot.objects.update(taken=span, free_milli=1000 - size * 250)
    Claim.objects.filter(part__isnull=False).update(part=kept, span=span)


@pytest.mark.parametrize(
    ("profile", "start", "size", "old", "new"),
    [
        ("1g.24gb", 2, 1, 0b0_0100, 0b0100_0_0100),
        ("2g.48gb", 0, 2, 0b0_0011, 0b0011_0_0011),
        ("4g.96gb", 0, 4, 0b0_1111, 0b1111_1_1111),
    ],
)
def test_a_part_that_was_written_without_its_engines_has_them_with_the_next_turn(
    profile: str, start: int, size: int, old: int, new: int
) -> None:
    a_catalogue()
    a_parts_catalogue()
    acme, host = a_tenant("acme"), a_host(parts=("mig",))
    cut_slots(host, "mig", 0)
    assert acme.order("h100.1g").allocation_id is not None
    a_part(profile, start, size, old)
    generation = host.fresh().generation
    assert parts_sweep() == 1
    claim, cut = Claim.objects.get(part__isnull=False), CutSlot.objects.get()
    assert claim.part is not None
    assert RTX is not None
    assert claim.part["bits"] == cut.state == new == state_of(RTX, [placement_of(claim.part)])
    assert host.fresh().generation > generation, "what was decided by less is decided anew"
    told = Event.objects.get(kind="placement.node.parts_mended")
    assert told.facts == {"slots": [0]}
    assert parts_sweep() == 0, "once is enough"
    # What it holds of the GPU is the stand-in's, which the test did not move along.
    assert {finding.code for finding in parts()} <= {"instance_not_held"}


def test_a_part_that_has_no_engines_is_left_as_it_is() -> None:
    a_catalogue()
    a_parts_catalogue()
    acme, host = a_tenant("acme"), a_host(parts=("mig",))
    cut_slots(host, "mig", 0)
    assert acme.order("h100.1g").allocation_id is not None
    assert parts_sweep() == 0, "the boards that the old code knew as we do"
    a_part("1g.24gb-me", 1, 1, 0b0_0010)
    assert parts_sweep() == 0
    assert CutSlot.objects.get().state == 0b0_0010


def test_a_layout_without_the_switches_above_has_them_with_the_next_report_in_full() -> None:
    a_catalogue()
    host = approved(file_report(topology_file("rccl-topo_4p4h.xml")), 0, kept=True)
    whole = host.fresh()
    count = whole.slot_count
    bare = "|".join(
        ".".join([numa, own.partition(":")[0], *more])
        for numa, own, *more in (part.split(".") for part in whole.layout.split("|"))
    )
    assert bare != whole.layout
    Node.objects.filter(pk=whole.pk).update(layout=bare)
    host.report()
    mended = host.fresh()
    assert neighbours(mended.layout, count) == neighbours(whole.layout, count)
    assert neighbours(bare, count) != neighbours(whole.layout, count)
    assert mended.generation > whole.generation
    assert [part.partition(":")[0] for part in mended.layout.split("|")] == [
        part.partition(":")[0] for part in whole.layout.split("|")
    ]
    host.report()
    assert host.fresh().layout == mended.layout
    assert Event.objects.filter(kind="placement.node.wired").count() == 1
