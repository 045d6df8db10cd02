"""Does the fleet choose the best place by its documented order, whatever happened before?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.demand import Bundle, Mix
from placement.domain.fragmentation import Free, Measure
from placement.domain.gaps import Gaps
from placement.domain.packing import Choice, Fleet, Host, Weights
from tests.placement.test_fragmentation import HOSTS, MIXES, MODELS, bundles

FLEETS = st.lists(HOSTS, min_size=1, max_size=5)
ASKED = st.lists(bundles(), min_size=1, max_size=12)
WEIGHTS = Weights()


def after(host: Host, bundle: Bundle, gpus: tuple[int, ...]) -> Host:
    free = [f - bundle.gpu_milli if k in gpus else f for k, f in enumerate(host.gpus)]
    return Host(
        host.name,
        host.model,
        host.cpu_milli - bundle.cpu_milli,
        host.memory_mib - bundle.memory_mib,
        tuple(free),
    )


def ways(host: Host, bundle: Bundle) -> list[tuple[int, ...]]:
    """Every choice of GPUs that the order tells apart, in order of index."""
    fits = host.cpu_milli >= bundle.cpu_milli and host.memory_mib >= bundle.memory_mib
    large = [k for k, free in enumerate(host.gpus) if free >= max(bundle.gpu_milli, 1)]
    if not fits or not bundle.runs_on(host.model) or len(large) < bundle.gpus:
        return []
    return [(k,) for k in large] if bundle.shared else [tuple(large[: bundle.gpus])]


def one(host: Host) -> Free:
    return Free(
        np.array([host.cpu_milli]),
        np.array([host.memory_mib]),
        np.array([MODELS.index(host.model)]),
        np.array([host.gpus]),
    )


def best_by_hand(hosts: list[Host], bundle: Bundle, mix: Mix) -> tuple[int, int, tuple[int, ...]]:
    """(score, host, GPUs) with the least score, the first among equals; host -1: nowhere."""
    measure, gaps = Measure(mix, MODELS), Gaps(mix.share_sizes())
    found: list[tuple[int, int, tuple[int, ...]]] = []
    for position, host in enumerate(hosts):
        for gpus in ways(host, bundle):
            then = after(host, bundle, gpus)
            gap = 0.0
            if bundle.shared:
                gap = float(gaps.lost(np.array([host.gpus[gpus[0]]]), bundle.gpu_milli)[0])
            fragment = measure.fragments(one(then))[0] - measure.fragments(one(host))[0]
            stranded = measure.stranded(one(then))[0] - measure.stranded(one(host))[0]
            score = (
                WEIGHTS.gap * gap + WEIGHTS.fragment * fragment + WEIGHTS.stranded * stranded
            ) * 1000
            found.append((round(score), position, gpus))
    return min(found, default=(0, -1, ()))


def told(choice: Choice | None) -> tuple[int, tuple[int, ...]]:
    return (-1, ()) if choice is None else (choice.position, choice.gpus)


@given(FLEETS, ASKED, MIXES)
@settings(max_examples=60, deadline=None)
def test_each_choice_is_the_best_by_hand_and_nothing_that_fits_is_refused(
    hosts: list[Host], asked: list[Bundle], mix: Mix
) -> None:
    fleet, now = Fleet(hosts, mix), list(hosts)
    for bundle in asked:
        score, position, gpus = best_by_hand(now, bundle, mix)
        choice = fleet.choose(bundle)
        if choice is None:
            assert position == -1
            continue
        # Sums in another order may round a score apart; the choice must be as good.
        assert (told(choice) == (position, gpus)) or abs(choice.score * 1000 - score) <= 1
        fleet.take(choice)
        now[choice.position] = after(now[choice.position], bundle, choice.gpus)
        assert fleet.host(choice.position) == now[choice.position]


@given(FLEETS, st.lists(st.tuples(bundles(), st.booleans()), max_size=20), MIXES)
@settings(max_examples=60, deadline=None)
def test_remembered_scores_are_those_of_a_fleet_made_anew(
    hosts: list[Host], steps: list[tuple[Bundle, bool]], mix: Mix
) -> None:
    fleet, taken = Fleet(hosts, mix), list[Choice]()
    for bundle, back in steps:
        if back and taken:
            fleet.give(taken.pop())
        fresh = Fleet([fleet.host(k) for k in range(len(hosts))], mix)
        assert fleet.ranked(bundle, limit=9) == fresh.ranked(bundle, limit=9)
        choice = fleet.choose(bundle)
        if choice is not None:
            fleet.take(choice)
            taken.append(choice)
    for choice in reversed(taken):
        fleet.give(choice)
    assert [fleet.host(k) for k in range(len(hosts))] == hosts


@given(FLEETS, bundles(), MIXES)
@settings(deadline=None)
def test_choosing_is_the_first_of_the_ranking_and_changes_nothing(
    hosts: list[Host], bundle: Bundle, mix: Mix
) -> None:
    fleet = Fleet(hosts, mix)
    ranking = fleet.ranked(bundle, limit=len(hosts))
    assert fleet.choose(bundle) == (ranking[0] if ranking else None)
    assert [choice.score for choice in ranking] == sorted(choice.score for choice in ranking)
    assert [fleet.host(k) for k in range(len(hosts))] == hosts


def test_the_terms_of_a_score_add_up_to_it() -> None:
    mix = Mix.counted({Bundle(4, 1, 1, 810): 5, Bundle(4, 1, 1, 470): 5, Bundle(9, 1, 1, 1000): 9})
    fleet = Fleet([Host("a", "A", 20, 20, (1000, 530))], mix)
    choice = fleet.choose(Bundle(4, 1, 1, 470))
    assert choice is not None
    terms = 10 * choice.gap + choice.fragment + 0.2 * choice.stranded
    assert choice.score == pytest.approx(terms, abs=1e-3)
    assert choice.gpus == (1,)
    assert choice.explained()["gpus"] == [1]
    assert set(choice.explained()) >= {"host", "gap_lost", "fragment_growth", "stranded_growth"}


def test_a_share_fills_a_gap_before_it_opens_a_gpu() -> None:
    mix = Mix.counted({Bundle(1, 1, 1, 810): 9, Bundle(1, 1, 1, 160): 1, Bundle(1, 1, 1, 1000): 9})
    fleet = Fleet([Host("open", "A", 9, 9, (1000,)), Host("gap", "A", 9, 9, (190,))], mix)
    choice = fleet.choose(Bundle(1, 1, 1, 160))
    assert choice is not None
    assert choice.host == "gap"


def test_a_cpu_bundle_leaves_the_host_whose_gpus_need_the_cpu() -> None:
    mix = Mix.counted({Bundle(8, 0, 1, 1000): 1})
    hosts = [Host("tight", "A", 16, 0, (1000, 1000)), Host("roomy", "A", 64, 0, (1000, 1000))]
    choice = Fleet(hosts, mix).choose(Bundle(8, 0))
    assert choice is not None
    assert choice.host == "roomy"


def test_a_bundle_for_any_model_leaves_the_model_that_others_insist_on() -> None:
    picky, easy = Bundle(1, 1, 1, 1000, frozenset("B")), Bundle(1, 1, 1, 1000)
    hosts = [Host("wanted", "B", 9, 9, (1000,)), Host("other", "A", 9, 9, (1000,))]
    choice = Fleet(hosts, Mix.counted({picky: 1, easy: 1})).choose(easy)
    assert choice is not None
    assert choice.host == "other"


def test_equal_scores_go_to_the_host_given_first() -> None:
    hosts = [Host(name, "A", 9, 9, (1000,)) for name in ("first", "second")]
    choice = Fleet(hosts, Mix()).choose(Bundle(1, 1, 1, 1000))
    assert choice is not None
    assert choice.host == "first"


def test_several_gpus_are_taken_whole_or_not_at_all() -> None:
    fleet = Fleet([Host("host", "A", 9, 9, (1000, 990, 1000))], Mix())
    choice = fleet.choose(Bundle(1, 1, 2, 1000))
    assert choice is not None
    assert choice.gpus == (0, 2)
    assert fleet.choose(Bundle(1, 1, 3, 1000)) is None


def test_a_choice_cannot_be_taken_twice_nor_given_back_untaken() -> None:
    fleet = Fleet([Host("host", "A", 9, 9, (1000,))], Mix())
    choice = fleet.choose(Bundle(1, 1, 1, 1000))
    assert choice is not None
    with pytest.raises(ValueError, match="does not hold"):
        fleet.give(choice)
    fleet.take(choice)
    with pytest.raises(ValueError, match="does not hold"):
        fleet.take(choice)
    assert fleet.host(0).gpus == (0,)


def test_a_learnt_mix_changes_the_scores_that_were_remembered() -> None:
    easy, picky = Bundle(1, 1, 1, 1000), Bundle(1, 1, 1, 1000, frozenset("A"))
    fleet = Fleet([Host("a", "A", 9, 9, (1000,)), Host("b", "B", 9, 9, (1000,))], Mix())
    before = fleet.choose(easy)
    fleet.learn(Mix.counted({picky: 1}))
    later = fleet.choose(easy)
    assert before is not None
    assert later is not None
    assert (before.host, later.host) == ("a", "b")


def test_an_empty_fleet_has_no_place() -> None:
    fleet = Fleet([], Mix.counted({Bundle(1, 1, 1, 500): 1}))
    assert fleet.choose(Bundle(1, 1, 1, 500)) is None
    assert fleet.ranked(Bundle(1, 1, 1, 500), limit=3) == []


@pytest.mark.parametrize(("cpu", "gpus"), [(-1, (1000,)), (1, (1001,)), (1, (-1,))], ids=str)
def test_a_host_with_more_or_less_than_there_is_is_refused(cpu: int, gpus: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="free"):
        Host("host", "A", cpu, 1, gpus)


def test_a_mix_of_more_kinds_than_it_holds_is_coarser_and_leaves_nothing_out() -> None:
    counts = {
        Bundle(1000 + cpu, 4096 + memory, gpus, 1000 if gpus else 0): 1
        for cpu in range(60)
        for memory in range(20)
        for gpus in (0, 1, 8)
    }
    mix = Mix.counted(counts)
    assert len(mix.parts) <= 512
    assert sum(often for _, often in mix.parts) == pytest.approx(1)
    by_gpus = {
        gpus: sum(often for one, often in mix.parts if one.gpus == gpus) for gpus in (0, 1, 8)
    }
    assert by_gpus == pytest.approx(dict.fromkeys((0, 1, 8), 1 / 3))
    for bundle, _ in mix.parts:
        assert 1000 * 0.75 <= bundle.cpu_milli <= 1060 * 1.25


def test_a_mix_of_few_kinds_holds_them_as_they_are() -> None:
    counts = {Bundle(1001 + k, 4097, 1, 1000): k + 1 for k in range(512)}
    assert {bundle for bundle, _ in Mix.counted(counts).parts} == set(counts)


def test_kinds_that_differ_in_more_than_cpu_and_memory_are_kept_by_how_often_they_come() -> None:
    counts = {Bundle(1, 1, 1, milli): milli for milli in range(1, 801)}
    kept = {bundle.gpu_milli for bundle, _ in Mix.counted(counts).parts}
    assert kept == set(range(289, 801))
