"""How full is an envelope, as a bar and in numbers?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from tenants.models import QuotaCounter, ResourceClass
from tenants.snapshots import QuotaState, quota_states


@dataclass(frozen=True, slots=True)
class Bar:
    """Use against a limit, in milli-units; ``added`` is what a plan would add, or give back.

    The parts of the drawn bar are in thousandths of its width.
    """

    title: str
    name: str
    used: int
    limit: int
    added: int = 0

    @property
    def free(self) -> int:
        """What is left now; never below nothing."""
        return max(0, self.limit - self.used)

    @property
    def after(self) -> int:
        """Use after the plan."""
        return self.used + self.added

    @property
    def over(self) -> bool:
        """Whether the plan would go beyond the limit."""
        return self.after > self.limit

    @property
    def _scale(self) -> int:
        return max(self.limit, self.used, self.after, 1)

    @property
    def used_w(self) -> int:
        """Width of what is used and stays so."""
        return min(self.used, self.after) * 1000 // self._scale

    @property
    def added_w(self) -> int:
        """Width of what is added."""
        return max(0, self.after * 1000 // self._scale - self.used_w)

    @property
    def freed_w(self) -> int:
        """Width of what is given back."""
        return self.used * 1000 // self._scale - self.used_w

    @property
    def limit_x(self) -> int:
        """Where the limit stands."""
        return self.limit * 1000 // self._scale

    @property
    def percent(self) -> int:
        """Use in percent of the limit, rounded down."""
        return self.used * 100 // self.limit if self.limit else 0


def bars_of(counters: Iterable[QuotaCounter]) -> list[Bar]:
    """One bar for each class that the tenant has an envelope of."""
    return [
        Bar(
            title=counter.resource_class.title,
            name=counter.resource_class.name,
            used=counter.used_milli,
            limit=counter.limit_milli + counter.grandfathered_milli,
        )
        for counter in counters
    ]


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A class as it is shared: what is the tenant's, held, borrowed beyond it, and lent out.

    Amounts are milli-units; the parts of the drawn bar are in thousandths of its width.
    """

    state: QuotaState
    title: str

    @property
    def name(self) -> str:
        """The class's name, unique on the page."""
        return self.state.resource_class

    @property
    def reach(self) -> int:
        """The most that could ever be held: nominal and what may be borrowed."""
        return self.state.limit_milli + self.state.borrow_milli

    @property
    def to_borrow(self) -> int:
        """How much of what is free is not the tenant's own."""
        return max(
            0, self.state.free_milli - max(0, self.state.limit_milli - self.state.used_milli)
        )

    @property
    def _scale(self) -> int:
        return max(self.reach, self.state.used_milli, 1)

    def _x(self, amount: int) -> int:
        return amount * 1000 // self._scale

    @property
    def own_w(self) -> int:
        """Width of what is held within the nominal."""
        return self._x(min(self.state.used_milli, self.state.limit_milli))

    @property
    def borrowed_w(self) -> int:
        """Width of what is held beyond it, from where the nominal ends."""
        return self._x(self.state.used_milli) - self.own_w if self.state.borrowed_milli else 0

    @property
    def lent_x(self) -> int:
        """Where the part of the nominal begins that others use."""
        return self._x(self.state.limit_milli - self.state.lent_milli)

    @property
    def lent_w(self) -> int:
        """Width of that part."""
        return self.nominal_x - self.lent_x if self.state.lent_milli else 0

    @property
    def nominal_x(self) -> int:
        """Where the nominal stands."""
        return self._x(self.state.limit_milli)


def shares_of(tenant_id: UUID) -> list[ShareBar]:
    """One bar for each class that the tenant has a counter of."""
    titles = dict(ResourceClass.objects.values_list("name", "title"))
    return [
        ShareBar(state, titles.get(state.resource_class, state.resource_class))
        for state in quota_states(tenant_id)
    ]
