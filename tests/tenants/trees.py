"""What is true of a tree of cohorts, worked out again from its definition alone?"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class PlainTenant:
    """What was agreed with a tenant, and what it holds."""

    nominal: int
    borrow: int
    lend: int | None
    cohort: str | None
    used: int = 0


@dataclass
class PlainCohort:
    """What was agreed about a cohort."""

    parent: str | None
    borrow: int | None
    lend: int | None


@dataclass
class Oracle:
    """Recomputes the whole tree for every question: slow, and close to the definition."""

    tenants: dict[str, PlainTenant] = field(default_factory=dict)
    cohorts: dict[str, PlainCohort] = field(default_factory=dict)

    def kept(self, tenant: PlainTenant) -> int:
        """What the tenant does not lend."""
        if tenant.cohort is None:
            return tenant.nominal
        lent = tenant.nominal if tenant.lend is None else min(tenant.lend, tenant.nominal)
        return tenant.nominal - lent

    def quota(self, name: str) -> int:
        """The sum of what the cohort's children lend."""
        return sum(
            t.nominal - self.kept(t) for t in self.tenants.values() if t.cohort == name
        ) + sum(
            self.quota(child) - self.cohort_kept(child)
            for child, cohort in self.cohorts.items()
            if cohort.parent == name
        )

    def cohort_kept(self, name: str) -> int:
        """What the cohort does not lend to its parent."""
        quota, lend = self.quota(name), self.cohorts[name].lend
        return quota - (quota if lend is None else min(lend, quota))

    def used(self, name: str) -> int:
        """The sum of what the cohort's children hold beyond what they keep."""
        return sum(
            max(0, t.used - self.kept(t)) for t in self.tenants.values() if t.cohort == name
        ) + sum(
            max(0, self.used(child) - self.cohort_kept(child))
            for child, cohort in self.cohorts.items()
            if cohort.parent == name
        )

    def limit(self, name: str) -> int | None:
        """The most that the cohort's children may hold beyond what they keep."""
        cohort = self.cohorts[name]
        if cohort.parent is None:
            return self.quota(name)
        return None if cohort.borrow is None else self.quota(name) + cohort.borrow

    def excess(self, name: str) -> int:
        """How far the cohort is beyond its limit."""
        limit = self.limit(name)
        return 0 if limit is None else max(0, self.used(name) - limit)

    def tenant_excess(self, name: str) -> int:
        """How far the tenant is beyond its own limit."""
        tenant = self.tenants[name]
        borrow = tenant.borrow if tenant.cohort is not None else 0
        return max(0, tenant.used - tenant.nominal - borrow)

    def allows(self, name: str, amount: int) -> bool:
        """Whether taking ``amount`` makes nobody exceed a limit further than before."""
        cohorts = {cohort: self.excess(cohort) for cohort in self.cohorts}
        own = self.tenant_excess(name)
        self.tenants[name].used += amount
        worse = self.tenant_excess(name) > own or any(
            self.excess(cohort) > before for cohort, before in cohorts.items()
        )
        self.tenants[name].used -= amount
        return not worse

    def most(self, name: str, bound: int) -> int:
        """The largest amount up to ``bound`` that is allowed, by trying each."""
        return max(amount for amount in range(bound + 1) if self.allows(name, amount))
