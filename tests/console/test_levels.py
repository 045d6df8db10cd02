"""Are tiers and cohorts made and changed on pages that first say whom that touches?"""

from __future__ import annotations

import re

import pytest

from gpuaas.console.cohort_tree import drawing, rows_of
from tenants.models import Cohort, CohortCounter, ResourceClass, SlaTier, TierVersion
from tenants.services.cohorts import cohort_create, tenant_cohort_set
from tenants.services.tiers import tier_create
from tests.builders import CLASS, OPERATOR, a_tenant
from tests.console.conftest import Fleet

TERMS = {
    "availability_ppm": "999500",
    "provision_target_s": "300",
    "throughput_floor_permille": "900",
    "priority_band": "5",
    "preemptible": "on",
    "preemption": "by_band",
    "protected_run_s": "3600",
    "checkpoint_grace_s": "120",
    "isolation": "node",
    "degradation_rank": "7",
    "credit_ladder": '[{"below_ppm": 999000, "credit_permille": 100}]',
    "reason": "sold",
}
NEW = "/console/tiers/new/"


def seen_in(page: str) -> str:
    return str(re.findall(r'name="seen" value="([0-9a-f.]{64})"', page)[0])


def test_a_tier_is_made_with_every_term(fleet: Fleet) -> None:
    answer = fleet.browser().send(NEW, {**TERMS, "name": "gold", "title": "Gold"})
    assert answer.headers["Location"] == "/console/tiers/of/gold/"
    tier = SlaTier.objects.get(name="gold")
    for name, value in TERMS.items():
        if name in ("reason", "preemptible", "credit_ladder"):
            continue
        assert str(getattr(tier, name)) == value
    assert tier.preemptible
    assert tier.credit_ladder == [{"below_ppm": 999_000, "credit_permille": 100}]
    page = fleet.browser().get("/console/tiers/of/gold/").content.decode()
    assert "99.95 %" in page
    assert "below 99.9 %: 10 %" in page
    assert "90 % of what is expected" in page


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "No Slug"),
        ("name", "standard"),
        ("title", ""),
        ("availability_ppm", "1000001"),
        ("availability_ppm", "99.9"),
        ("provision_target_s", "-1"),
        ("throughput_floor_permille", "1001"),
        ("priority_band", str(2**63)),
        ("preemption", "always"),
        ("protected_run_s", ""),
        ("checkpoint_grace_s", "1e3"),
        ("isolation", "none"),
        ("degradation_rank", "1001"),
        ("credit_ladder", "{"),
        ("credit_ladder", "{}"),
        ("credit_ladder", '[{"below_ppm": 1, "credit_permille": 0}]'),
        ("reason", ""),
    ],
)
def test_a_bad_term_is_refused_beside_its_field(fleet: Fleet, field: str, value: str) -> None:
    form = {**TERMS, "name": "gold", "title": "Gold der Beste", field: value}
    answer = fleet.browser().send(NEW, form)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in page
    assert "Gold der Beste" in page or field == "title"
    assert not SlaTier.objects.filter(name="gold").exists()


def test_a_next_version_is_kept_only_as_it_was_looked_at(fleet: Fleet) -> None:
    browser, address = fleet.browser(), "/console/tiers/of/standard/"
    look = browser.send(address, TERMS)
    page = look.content.decode()
    assert look.status_code == 200
    assert "Nothing is kept yet" in page
    assert "2 tenants (acme, initech)" in page
    assert "too little isolation" in page
    assert SlaTier.objects.get(name="standard").version == 1
    fleet.acme.order(slots=1, name="meanwhile")
    stale = browser.send(address, {**TERMS, "seen": seen_in(page)}).content.decode()
    assert "What it touches has changed" in stale
    kept = browser.send(address, {**TERMS, "seen": seen_in(stale)})
    assert kept.headers["Location"] == address
    tier = SlaTier.objects.get(name="standard")
    assert (tier.version, tier.isolation) == (2, "node")
    history = browser.get(address).content.decode()
    assert "isolation: vm → <b>node</b>" in history
    assert TierVersion.objects.filter(tier=tier).count() == 2
    same = browser.send(address, TERMS)
    assert same.status_code == 400
    assert "No term is different" in same.content.decode()


def test_a_bad_next_version_keeps_what_was_typed(fleet: Fleet) -> None:
    answer = fleet.browser().send(
        "/console/tiers/of/standard/", {**TERMS, "degradation_rank": "1001"}
    )
    assert answer.status_code == 400
    page = answer.content.decode()
    assert 'id="id_degradation_rank_error"' in page
    assert 'value="999500"' in page
    assert fleet.browser().get("/console/tiers/of/none-such/").status_code == 404


@pytest.fixture
def tree(fleet: Fleet) -> Fleet:
    """An alliance with a lab inside, acme in the lab and globex in the alliance."""
    cohort_create(name="alliance", title="Alliance", actor=OPERATOR)
    cohort_create(name="lab", title="Lab <one>", parent="alliance", actor=OPERATOR)
    globex = a_tenant("globex", envelope_slots=2)
    for pk, cohort in ((fleet.acme.tenant.pk, "lab"), (globex.tenant.pk, "alliance")):
        tenant_cohort_set(tenant_id=pk, cohort=cohort, reason="share", actor=OPERATOR)
    return fleet


def test_the_tree_is_drawn_and_told_in_words(tree: Fleet) -> None:
    page = tree.browser().get("/console/cohorts/").content.decode()
    assert 'role="img"' in page
    assert "Lab &lt;one&gt;" in page
    assert "Lab <one>" not in page
    table = page[page.index('id="h-lines"') :]
    for who, inside, whole, used in (
        ("Alliance", "a root", 66, 2),
        ("Lab &lt;one&gt;", "Alliance", 64, 2),
        ("acme", "Lab &lt;one&gt;", 64, 2),
        ("globex", "Alliance", 2, 0),
    ):
        row = rf">{who}</a> .*?<td>{inside}</td><td class=\"num\">{whole}</td>"
        assert re.search(row + rf"<td class=\"num\">{used}</td>", table), who


def test_each_line_of_the_tree_hangs_under_its_cohort(tree: Fleet) -> None:
    rows = rows_of(ResourceClass.objects.get(name=CLASS))
    assert [(row.name, row.depth, row.parent) for row in rows] == [
        ("Alliance", 0, None),
        ("Lab <one>", 1, 0),
        ("acme", 2, 1),
        ("globex", 1, 0),
    ]

    drawn = drawing(rows, "a tree")
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" [^>]*class="whole"', drawn)]
    assert len(widths) == 4
    assert widths[1] / widths[0] == pytest.approx(64 / 66, rel=0.01)
    assert max(widths) == widths[0]


def test_search_finds_a_cohort_by_its_title(tree: Fleet) -> None:
    answer = tree.browser().get("/console/search/", {"q": "Alliance"})
    assert answer.headers["Location"] == "/console/cohorts/alliance/"


def test_a_cohort_is_made_limited_after_a_look_and_removed(tree: Fleet) -> None:
    browser = tree.browser()
    made = browser.send(
        "/console/cohorts/", {"name": "annex", "title": "Annex", "parent": "alliance"}
    )
    assert made.headers["Location"] == "/console/cohorts/annex/"
    kind = ResourceClass.objects.get(name=CLASS)
    form = {
        "resource_class": str(kind.pk),
        "borrow_milli": "0",
        "lend_milli": "1.5",
        "reason": "agreed",
    }
    look = browser.send("/console/cohorts/lab/", form).content.decode()
    assert "Nothing is kept yet" in look
    browser.send("/console/cohorts/lab/", {**form, "seen": seen_in(look)})
    counter = CohortCounter.objects.get(cohort__name="lab", resource_class=kind)
    assert (counter.borrow_milli, counter.lend_milli) == (0, 1500)
    wrong = browser.send("/console/cohorts/annex/delete/", {"confirm": "lab", "reason": "x"})
    assert 'id="delete-confirm_error"' in wrong.content.decode()
    browser.send("/console/cohorts/annex/delete/", {"confirm": "annex", "reason": "empty"})
    assert not Cohort.objects.filter(name="annex").exists()
    held = browser.send("/console/cohorts/lab/delete/", {"confirm": "lab", "reason": "x"})
    assert held.status_code == 400
    assert Cohort.objects.filter(name="lab").exists()


@pytest.mark.parametrize(
    ("field", "value"), [("name", "No Slug"), ("name", "lab"), ("name", ""), ("parent", "nobody")]
)
def test_a_bad_cohort_is_refused_beside_its_field(tree: Fleet, field: str, value: str) -> None:
    form = {"name": "annex", "title": "The annex", field: value}
    answer = tree.browser().send("/console/cohorts/", form)
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert "The annex" in answer.content.decode()


@pytest.mark.parametrize("amount", ["-1", str(2**63), "NaN", "1e3"])
@pytest.mark.parametrize("field", ["borrow_milli", "lend_milli"])
def test_a_bad_limit_is_refused_beside_its_field(tree: Fleet, field: str, amount: str) -> None:
    kind = ResourceClass.objects.get(name=CLASS)
    form = {"resource_class": str(kind.pk), "reason": "agreed", field: amount}
    answer = tree.browser().send("/console/cohorts/lab/", form)
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.content.decode()


def test_without_a_cohort_the_page_says_what_to_do(fleet: Fleet) -> None:
    page = fleet.browser().get("/console/cohorts/").content.decode()
    assert "Tenants do not share with each other yet." in page


def test_a_tier_that_nobody_has_says_where_it_is_given(fleet: Fleet) -> None:
    tier_create(name="gold", title="Gold", terms={}, reason="sold", actor=OPERATOR)
    page = fleet.browser().get("/console/tiers/of/gold/").content.decode()
    assert "Nobody. It is given on a tenant's page" in page
