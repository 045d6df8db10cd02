"""How full is an envelope, as a bar and in numbers?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenants.models import QuotaCounter


@dataclass(frozen=True, slots=True)
class Bar:
    """Use against a limit, in milli-units; ``added`` is what a plan would add.

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
        return max(self.limit, self.after, 1)

    @property
    def used_w(self) -> int:
        """Width of what is used."""
        return self.used * 1000 // self._scale

    @property
    def added_w(self) -> int:
        """Width of what is added."""
        return self.after * 1000 // self._scale - self.used_w

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
