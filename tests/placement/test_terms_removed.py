"""Do hosts go back to what holds for all when a family's own terms of fitness are removed?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.models import Event
from placement.errors import NoTermsToRemove
from placement.models import NodeCapability
from placement.selectors.readiness_terms import readiness_terms_list, readiness_terms_now
from placement.services.evidence import readiness_sweep
from placement.services.readiness_terms import (
    readiness_terms_removal,
    readiness_terms_remove,
    readiness_terms_set,
)
from tenants.errors import PreviewStale
from tests.api.client import operator_caller
from tests.builders import OPERATOR, Host, a_catalogue, a_host

pytestmark = pytest.mark.django_db
BURN_IN = {"slices": {"burn_in": 86_400}, "baremetal": {}}


@pytest.fixture
def host(db: None) -> Host:
    """A ready host whose family asks for a burn-in that nobody has done."""
    a_catalogue()
    made = a_host("h1")
    demand("h100x8")
    return made


def demand(family: str) -> None:
    """A burn-in is needed from now on."""
    readiness_terms_set(family=family, required=BURN_IN, reason="burn in", actor=OPERATOR)
    readiness_sweep()


def slices(host: Host) -> str:
    """Whether slices of it are sold."""
    return str(NodeCapability.objects.get(node=host.node, capability="slices").state)


def test_without_its_own_terms_a_family_has_those_of_any_and_then_the_products(
    host: Host,
) -> None:
    assert slices(host) == "suspended"
    shown = readiness_terms_removal(family="h100x8")
    assert (shown.hosts, shown.promoted, shown.demoted) == (1, 1, 0)
    readiness_terms_remove(family="h100x8", reason="enough", seen=shown.digest, actor=OPERATOR)
    readiness_sweep()
    assert slices(host) == "promoted"
    now = readiness_terms_now("h100x8")
    assert (now.version, [event.reason for event in now.versions]) == (0, ["enough", "burn in"])
    demand("any")
    assert slices(host) == "suspended"
    assert readiness_terms_removal(family="any").promoted == 1
    readiness_terms_remove(family="any", reason="enough", actor=OPERATOR)
    readiness_sweep()
    assert slices(host) == "promoted"
    assert [terms.version for terms in readiness_terms_list()] == [0, 0]


def test_they_can_be_set_again_and_their_versions_go_on(host: Host) -> None:
    readiness_terms_remove(family="h100x8", reason="enough", actor=OPERATOR)
    demand("h100x8")
    assert slices(host) == "suspended"
    assert readiness_terms_now("h100x8").version == 3
    last = Event.objects.filter(kind="placement.readinessterms.set").latest("id")
    assert last.before is None


def test_what_is_not_set_is_not_removed_and_a_stale_look_confirms_nothing(host: Host) -> None:
    with pytest.raises(NoTermsToRemove):
        readiness_terms_removal(family="any")
    with pytest.raises(PreviewStale):
        readiness_terms_remove(family="h100x8", reason="x", seen="0" * 64, actor=OPERATOR)
    assert readiness_terms_now("h100x8").version == 1
    readiness_terms_remove(family="h100x8", reason="x", actor=OPERATOR)
    with pytest.raises(NoTermsToRemove):
        readiness_terms_remove(family="h100x8", reason="x", actor=OPERATOR)


def test_they_are_removed_over_rest_after_a_look(host: Host) -> None:
    api, where = operator_caller(), "/api/v1/readiness-terms/h100x8/actions"
    digest = api.post(f"{where}/preview-removal", {}).json()["digest"]
    done = api.post(f"{where}/remove", {"seen": digest, "reason": "enough"})
    assert (done.status_code, done.json()["version"]) == (200, 0)
    again = api.post(f"{where}/preview-removal", {})
    assert (again.status_code, again.json()["code"]) == (409, "no_terms_to_remove")
