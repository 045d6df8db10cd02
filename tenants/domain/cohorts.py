"""How much may a tenant take, when unused quota is lent and borrowed in a tree of cohorts?

For one resource class, in milli-units. A tenant keeps ``guaranteed`` of its nominal for
itself and lends the rest; a cohort's ``quota`` is what its children lend, its ``used`` what
they hold beyond what is kept for them. So a charge climbs from the tenant to the root and
ends where it no longer reaches beyond what is guaranteed there. Each ``grandfathered`` is
exactly the excess over the limit in force: it appears when a limit falls below what is held,
and from then on only shrinks.

The database does the same in ``sql/charge_tree_v1.sql``; a test runs both side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

ENVELOPE: Final = "envelope_exceeded"
COHORT: Final = "cohort_exhausted"


@dataclass(frozen=True, slots=True)
class Share:
    """A tenant's part: what it may hold and holds. ``lend`` None lends all of the nominal."""

    nominal: int
    borrow: int = 0
    lend: int | None = None
    used: int = 0
    cohort: str | None = None
    grandfathered: int = 0

    @property
    def borrowing(self) -> int:
        """How far it may go beyond nominal: nowhere without a cohort to borrow from."""
        return self.borrow if self.cohort is not None else 0

    @property
    def guaranteed(self) -> int:
        """What is never lent to others."""
        if self.cohort is None:
            return self.nominal
        return 0 if self.lend is None else max(0, self.nominal - self.lend)

    @property
    def room(self) -> int:
        """What its own limit leaves."""
        return self.nominal + self.borrowing + self.grandfathered - self.used

    @property
    def lendable(self) -> int:
        """What it adds to its cohort's quota."""
        return self.nominal - self.guaranteed

    @property
    def beyond(self) -> int:
        """What it holds beyond what is guaranteed to it."""
        return max(0, self.used - self.guaranteed)

    def settled(self) -> Share:
        """With the excess that its limit and use now give."""
        excess = max(0, self.used - self.nominal - self.borrowing)
        return replace(self, grandfathered=excess)


@dataclass(frozen=True, slots=True)
class Pot:
    """A cohort's part. ``borrow`` None: no own limit; a root cannot borrow and never lends."""

    parent: str | None = None
    quota: int = 0
    used: int = 0
    borrow: int | None = None
    lend: int | None = None
    grandfathered: int = 0

    @property
    def limit(self) -> int | None:
        """What its children may hold beyond their guarantees; None: only its parent limits."""
        if self.parent is None:
            return self.quota
        return None if self.borrow is None else self.quota + self.borrow

    @property
    def guaranteed(self) -> int:
        """What its parent does not lend to others."""
        if self.parent is None:
            return self.quota
        return 0 if self.lend is None else max(0, self.quota - self.lend)

    @property
    def room(self) -> int | None:
        """What its limit leaves; None: no own limit."""
        return None if self.limit is None else self.limit + self.grandfathered - self.used

    @property
    def lendable(self) -> int:
        """What it adds to its parent's quota."""
        return self.quota - self.guaranteed

    @property
    def beyond(self) -> int:
        """What its children hold beyond what is guaranteed to them all."""
        return max(0, self.used - self.guaranteed)

    def settled(self) -> Pot:
        """With the excess that its limit and use now give."""
        excess = 0 if self.limit is None else max(0, self.used - self.limit)
        return replace(self, grandfathered=excess)


@dataclass(frozen=True, slots=True)
class Tree:
    """Tenants and cohorts of one class by name: all of them, or one tenant and its ancestors."""

    shares: Mapping[str, Share] = field(default_factory=dict)
    pots: Mapping[str, Pot] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an amount cannot be taken: the code, and the tenant or cohort whose limit it is."""

    code: str
    where: str
    room: int


def available(tree: Tree, tenant: str) -> int:
    """The most that the tenant could take now, never below 0."""
    share = tree.shares[tenant]
    most = max(0, share.room)
    slack = max(0, share.guaranteed - share.used)
    name = share.cohort
    while name is not None:
        pot = tree.pots[name]
        if pot.room is not None:
            most = min(most, slack + max(0, pot.room))
        slack += max(0, pot.guaranteed - pot.used)
        name = pot.parent
    return most


def charge(tree: Tree, tenant: str, amount: int) -> Tree | Refusal:
    """The tree after the tenant took ``amount`` (above 0), or who refuses; leaf to root."""
    share = tree.shares[tenant]
    if amount > share.room:
        return Refusal(ENVELOPE, tenant, max(0, share.room))
    after = replace(share, used=share.used + amount)
    pots = dict(tree.pots)
    grown, name = after.beyond - share.beyond, share.cohort
    while name is not None and grown > 0:
        pot = pots[name]
        if pot.room is not None and grown > pot.room:
            return Refusal(COHORT, name, max(0, pot.room))
        pots[name] = replace(pot, used=pot.used + grown)
        grown, name = pots[name].beyond - pot.beyond, pot.parent
    return Tree({**tree.shares, tenant: after}, pots)


def give_back(tree: Tree, tenant: str, amount: int) -> Tree:
    """The tree after the tenant returned ``amount``, which it held. Raises ValueError if not."""
    share = tree.shares[tenant]
    if not 0 <= amount <= share.used:
        raise ValueError(f"{tenant} holds {share.used}, not {amount}")
    return _put(tree, tenant, replace(share, used=share.used - amount))


def change(
    tree: Tree, tenant: str, *, nominal: int, borrow: int = 0, lend: int | None = None
) -> Tree:
    """The tree after the tenant's limits changed; what is held beyond them is grandfathered."""
    share = tree.shares[tenant]
    return _put(tree, tenant, replace(share, nominal=nominal, borrow=borrow, lend=lend))


def move(tree: Tree, tenant: str, cohort: str | None) -> Tree:
    """The tree after the tenant left its cohort for another, or for none."""
    share = tree.shares[tenant]
    away = _contribute(tree.pots, share.cohort, -share.lendable, -share.beyond)
    after = replace(share, cohort=cohort).settled()
    pots = _contribute(away, cohort, after.lendable, after.beyond)
    return Tree({**tree.shares, tenant: after}, pots)


def bound(tree: Tree, name: str, *, borrow: int | None, lend: int | None) -> Tree:
    """The tree after a cohort's own limits changed."""
    pot = tree.pots[name]
    after = replace(pot, borrow=borrow, lend=lend).settled()
    pots = {**tree.pots, name: after}
    lent, more = after.lendable - pot.lendable, after.beyond - pot.beyond
    return Tree(tree.shares, _contribute(pots, pot.parent, lent, more))


def _put(tree: Tree, tenant: str, share: Share) -> Tree:
    before, after = tree.shares[tenant], share.settled()
    pots = _contribute(
        tree.pots, after.cohort, after.lendable - before.lendable, after.beyond - before.beyond
    )
    return Tree({**tree.shares, tenant: after}, pots)


def _contribute(
    pots: Mapping[str, Pot], name: str | None, quota: int, used: int
) -> Mapping[str, Pot]:
    """The cohorts after a child of ``name`` lends and holds that much more (or less)."""
    out = dict(pots)
    while name is not None and (quota or used):
        pot = out[name]
        after = replace(pot, quota=pot.quota + quota, used=pot.used + used).settled()
        out[name] = after
        quota, used = after.lendable - pot.lendable, after.beyond - pot.beyond
        name = pot.parent
    return out
