"""Does a crowd on few nodes ever get more than there is, or leave anything behind?"""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from placement.models import Claim, Node
from placement.services.allocations import allocation_release
from tenants.models import QuotaCounter
from tests.stress import crowd

pytestmark = pytest.mark.django_db(transaction=True)

THREADS, SECONDS, AT_MOST_S = 16, 4.0, 90.0
PLACED = 20


def test_a_crowd_that_claims_and_gives_back_leaves_every_audit_silent() -> None:
    buyers, hosts = crowd.build(hosts=3, tenants=4)
    journal = crowd.Journal()
    begun = time.monotonic()

    def over() -> bool:
        """Long enough, and on a busy machine until enough has happened."""
        since = time.monotonic() - begun
        enough = len(journal.placed) > PLACED and journal.refused > 0
        return since > (SECONDS if enough else AT_MOST_S)

    def work(k: int) -> None:
        if k == 0:
            crowd.hosts_work(hosts, over)
        else:
            crowd.client(buyers, journal, over, seed=k)

    crowd.in_threads(THREADS, work)
    crowd.settle(hosts)
    assert journal.strange == []
    assert len(journal.placed) > PLACED, "the crowd hardly got anything"
    assert journal.refused > 0, "the fleet was never full"
    assert crowd.missing(journal.placed, journal.released) == []
    assert crowd.findings() == []


def test_what_a_crowd_gives_back_is_all_there_again() -> None:
    buyers, hosts = crowd.build(hosts=2, tenants=2)
    journal = crowd.Journal()
    end = time.monotonic() + 1.5
    crowd.in_threads(8, lambda k: crowd.client(buyers, journal, lambda: time.monotonic() > end, k))
    for allocation in set(journal.placed) - journal.released:
        allocation_release(allocation_id=UUID(allocation), reason="end", actor=buyers[0].actor())
    crowd.settle(hosts)
    assert journal.strange == []
    assert Claim.objects.exclude(state="released").count() == 0
    assert {node.free_mask for node in Node.objects.all()} == {0xFF}
    assert {counter.used_milli for counter in QuotaCounter.objects.all()} == {0}
