"""What does a decision look at?  Frozen, small, and read in one snapshot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from admission.domain import policy
from admission.domain.canonical import canonical_json
from admission.domain.headroom import Headroom
from admission.domain.locality import Data, Store
from admission.domain.sharing import ANY_TENANT, SharingAnswer
from tenants.domain.caps import Caps
from tenants.domain.cohorts import Pot, Share, Tree, available


@dataclass(frozen=True, slots=True)
class Quota:
    """What the tenant may hold and holds of the class, in milli-units.

    ``pots`` are its cohorts from the nearest to the root; ``project`` is (limit, used,
    grandfathered) of the project, when it has a limit of its own.
    """

    limit_milli: int
    used_milli: int
    grandfathered_milli: int = 0
    admitting: bool = True
    version: int = 0
    borrow_milli: int = 0
    guaranteed_milli: int = 0
    cohort: str = ""
    pots: tuple[Pot, ...] = ()
    project: tuple[int, int, int] | None = None

    @property
    def most_milli(self) -> int:
        """The most it may ever hold as things are agreed now: nominal and borrowed."""
        most = self.limit_milli + self.borrow_milli
        return most if self.project is None else min(most, self.project[0])

    @property
    def own_free_milli(self) -> int:
        """What its own limit leaves."""
        limit = self.limit_milli + self.borrow_milli + self.grandfathered_milli
        return max(0, limit - self.used_milli)

    @property
    def project_free_milli(self) -> int | None:
        """What the project's limit leaves; None: it has none."""
        if self.project is None:
            return None
        limit, used, grandfathered = self.project
        return max(0, limit + grandfathered - used)

    @property
    def tree_free_milli(self) -> int:
        """What its own limit and every cohort above it leave."""
        if not self.pots:
            return self.own_free_milli
        names = [str(level) for level in range(len(self.pots))]
        share = Share(
            nominal=self.limit_milli,
            borrow=self.borrow_milli,
            lend=self.limit_milli - self.guaranteed_milli,
            used=self.used_milli,
            cohort=names[0],
            grandfathered=self.grandfathered_milli,
        )
        return available(Tree({"": share}, dict(zip(names, self.pots, strict=True))), "")

    @property
    def free_milli(self) -> int:
        """What could be taken now."""
        free, project = self.tree_free_milli, self.project_free_milli
        return free if project is None else min(free, project)


def quota_seen(quota: Quota | None) -> dict[str, int]:
    """What a rule sees of the quota; a tenant without an envelope has none."""
    return {
        "limit_milli": quota.limit_milli if quota else 0,
        "used_milli": quota.used_milli if quota else 0,
        "borrowed_milli": max(0, quota.used_milli - quota.limit_milli) if quota else 0,
        "free_milli": quota.free_milli if quota else 0,
    }


def digest_of(facts: object, names: Iterable[str]) -> str:
    """SHA-256 over the canonical values of these attributes."""
    seen = {name: getattr(facts, name) for name in names}
    quota = seen.get("quota")
    if quota is not None:
        seen["quota"] = {name: getattr(quota, name) for name in quota.__slots__}
    return hashlib.sha256(canonical_json(seen)).hexdigest()


@dataclass(frozen=True, slots=True)
class Holding:
    """The tenant's caps beside what they count, when it has any."""

    caps: Caps
    live: int = 0
    waiting: int = 0
    committed_micro: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the gates look at, read in one snapshot."""

    actor: str
    may_write: bool
    tenant_state: str
    project_known: bool
    sku: str
    sku_state: str
    shape: str
    slots_min: int
    slots_max: int
    slots_asked: int
    amount_milli: int
    resource_class: str
    quota: Quota | None
    tier: str
    tier_asked: str
    tier_isolation: str
    sku_isolation: str
    band: int | None
    image: str
    image_known: bool
    keys_unknown: tuple[str, ...] = ()
    action: str = "allocation.create"
    kind: str = "lease"
    tenant: str = ""
    family: str = ""
    pool: str = ""
    pool_known: bool = True
    entitled: bool = True
    preemption: str = "never"
    replicas: int = 1
    wait: bool = False
    band_asked: int | None = None
    holding: Holding | None = None
    zones: tuple[str, ...] = ()
    data: tuple[Data, ...] = ()
    data_unknown: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    stores: tuple[Store, ...] = ()
    neighbours: str = ANY_TENANT
    sharing: SharingAnswer | None = None
    headroom: Headroom | None = None
    hour: int = 0
    weekday: int = 1
    policy_version: str = ""

    def digest(self) -> str:
        """SHA-256 over the canonical facts, so that a decision can be replayed."""
        return digest_of(self, self.__slots__)

    def seen(self) -> dict[str, Any]:
        """The small fixed map that policy rules see, and that a decision keeps."""
        quota = self.quota
        return {
            "action": self.action,
            "tenant": {
                "slug": self.tenant,
                "state": self.tenant_state,
                "tier": self.tier,
                "cohort": quota.cohort if quota else "",
            },
            "request": {
                "sku": self.sku,
                "shape": self.shape,
                "family": self.family,
                "pool": self.pool,
                "slots": self.slots_asked,
                "replicas": self.replicas,
                "amount_milli": self.amount_milli,
                "wait": self.wait,
                "zones": list(self.zones[: policy.MAX_LIST]),
                "image": self.image[: policy.MAX_STRING],
                "band": self.asked_band,
                "kind": self.kind,
                "resource_class": self.resource_class,
                "asked_milli": 0,
                "email_domain": "",
                "storage": list(self.storage[: policy.MAX_LIST]),
                "neighbours": self.neighbours,
            },
            "quota": quota_seen(quota),
            "time": {"hour": self.hour, "weekday": self.weekday},
        }

    @property
    def asked_band(self) -> int:
        """The priority band that is asked for, or the tier's own; 0 goes first."""
        return (self.band or 0) if self.band_asked is None else self.band_asked
