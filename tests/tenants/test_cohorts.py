"""Does the arithmetic of the cohort tree agree with a brute-force reading of its rules?"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tenants.domain import cohorts
from tenants.domain.cohorts import Pot, Refusal, Share, Tree
from tests.tenants.trees import Oracle, PlainCohort, PlainTenant

AMOUNTS = st.integers(0, 6)
MAYBE = st.none() | AMOUNTS
COHORTS = {"root": None, "left": "root", "right": "root", "deep": "left", "other": None}
TENANTS = ("a", "b", "c", "d")
PLACES = st.sampled_from([None, *COHORTS])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), st.sampled_from(TENANTS), st.integers(1, 8)),
        st.tuples(st.just("return"), st.sampled_from(TENANTS), AMOUNTS),
        st.tuples(st.just("change"), st.sampled_from(TENANTS), AMOUNTS, AMOUNTS, MAYBE),
        st.tuples(st.just("move"), st.sampled_from(TENANTS), PLACES),
        st.tuples(st.just("bound"), st.sampled_from(sorted(COHORTS)), MAYBE, MAYBE),
    ),
    max_size=25,
)


def empty() -> tuple[Tree, Oracle]:
    """The same tree twice: nobody has or holds anything."""
    tree = Tree(
        {name: Share(0) for name in TENANTS},
        {name: Pot(parent) for name, parent in COHORTS.items()},
    )
    oracle = Oracle(
        {name: PlainTenant(0, 0, None, None) for name in TENANTS},
        {name: PlainCohort(parent, None, None) for name, parent in COHORTS.items()},
    )
    return tree, oracle


def step(tree: Tree, oracle: Oracle, what: tuple[object, ...]) -> Tree:
    """Do one thing to both; a charge must be allowed by both or by none."""
    match what:
        case ("charge", str(name), int(amount)):
            answer = cohorts.charge(tree, name, amount)
            assert isinstance(answer, Tree) == oracle.allows(name, amount), answer
            if isinstance(answer, Refusal):
                return tree
            oracle.tenants[name].used += amount
            return answer
        case ("return", str(name), int(amount)):
            amount = min(amount, oracle.tenants[name].used)
            oracle.tenants[name].used -= amount
            return cohorts.give_back(tree, name, amount)
        case ("change", str(name), int(nominal), int(borrow), (int() | None) as lend):
            mine = oracle.tenants[name]
            mine.nominal, mine.borrow, mine.lend = nominal, borrow, lend
            return cohorts.change(tree, name, nominal=nominal, borrow=borrow, lend=lend)
        case ("move", str(name), (str() | None) as cohort):
            oracle.tenants[name].cohort = cohort
            return cohorts.move(tree, name, cohort)
        case ("bound", str(name), (int() | None) as most, (int() | None) as lend):
            oracle.cohorts[name].borrow, oracle.cohorts[name].lend = most, lend
            return cohorts.bound(tree, name, borrow=most, lend=lend)
        case _:
            raise AssertionError(what)


@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_every_counter_equals_what_the_definition_gives(steps: list[tuple[object, ...]]) -> None:
    tree, oracle = empty()
    for what in steps:
        tree = step(tree, oracle, what)
        for name, pot in tree.pots.items():
            assert (pot.quota, pot.used) == (oracle.quota(name), oracle.used(name)), (name, what)
            assert pot.grandfathered == oracle.excess(name), (name, what)
        for name, share in tree.shares.items():
            assert share.used == oracle.tenants[name].used
            assert share.grandfathered == oracle.tenant_excess(name), (name, what)
            assert cohorts.available(tree, name) == oracle.most(name, 40), (name, what)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_a_tree_holds_no_more_than_its_members_bring_beyond_what_was_grandfathered(
    steps: list[tuple[object, ...]],
) -> None:
    tree, oracle = empty()
    for what in steps:
        tree = step(tree, oracle, what)
        for root in ("root", "other"):
            inside = {n for n in COHORTS if n == root or (root == "root" and n != "other")}
            members = [s for s in tree.shares.values() if s.cohort in inside]
            excess = sum(tree.pots[n].grandfathered for n in inside)
            assert sum(s.used for s in members) <= sum(s.nominal for s in members) + excess


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sampled_from(TENANTS), st.integers(1, 8))
def test_what_was_taken_and_given_back_leaves_no_trace(
    steps: list[tuple[object, ...]], name: str, amount: int
) -> None:
    tree, oracle = empty()
    for what in steps:
        tree = step(tree, oracle, what)
    taken = cohorts.charge(tree, name, amount)
    if isinstance(taken, Tree):
        assert cohorts.give_back(taken, name, amount) == tree
    else:
        assert taken.room < amount


def test_a_refusal_names_whose_limit_it_is() -> None:
    tree = Tree({"a": Share(4, borrow=2, cohort="c"), "b": Share(4, cohort="c")}, {"c": Pot()})
    tree = cohorts.bound(tree, "c", borrow=None, lend=None)
    tree = Tree(tree.shares, {"c": Pot(quota=8)})
    assert cohorts.charge(tree, "a", 7) == Refusal("envelope_exceeded", "a", 6)
    taken = cohorts.charge(tree, "a", 6)
    assert isinstance(taken, Tree)
    assert cohorts.charge(taken, "b", 3) == Refusal("cohort_exhausted", "c", 2)
    assert cohorts.available(taken, "b") == 2
