"""Which columns do people, tiers, cohorts, limits and data sets have in a table?"""

from gpuaas.cli.kinds import age, time, units
from gpuaas.cli.output import Kind, column

MEMBER = Kind(
    "member",
    (
        column("EMAIL"),
        column("ROLE"),
        column("ID"),
        column("NAME", "full_name", wide=True),
        age("created_at", "SINCE"),
    ),
    path="/members",
)

ENTITLEMENT = Kind(
    "entitlement",
    (
        column("SKU"),
        time("UNTIL", "until"),
        column("OVER"),
        age("created_at"),
        column("TITLE", wide=True),
    ),
    key="sku",
    path="/entitlements",
    paged=False,
)

CATALOGUE = Kind("catalogue", (column("CATALOGUE"), column("SKUS", "items")), key="catalogue")

DELETION = Kind(
    "deletion",
    (
        column("TENANT", "tenant.slug"),
        column("STATE", "tenant.state"),
        column("HELD", "held_count"),
    ),
    key="tenant",
)

DATASET = Kind(
    "dataset",
    (
        column("NAME"),
        column("VERSION"),
        column("ZONES"),
        column("RACKS"),
        column("NODES"),
        column("STORAGE"),
        column("REQUIRED"),
        age("created_at"),
        column("DECLARED BY", "declared_by.name", wide=True),
        age("retired_at", "RETIRED", wide=True),
    ),
    key="name",
    path="/datasets",
    paged=False,
)

STORAGE = Kind(
    "storage",
    (
        column("NAME"),
        column("KIND"),
        column("VERSION"),
        column("ZONES"),
        age("created_at"),
    ),
    key="name",
    path="/storage",
    paged=False,
)

DATASET_VERSION = Kind("dataset", DATASET.columns, key="version")

COHORT = Kind(
    "cohort",
    (column("NAME"), column("PARENT"), column("TENANTS"), column("TITLE", wide=True)),
    key="name",
    path="/cohorts",
    paged=False,
)

TIER = Kind(
    "tier",
    (
        column("NAME"),
        column("VERSION"),
        column("BAND", "priority_band"),
        column("ISOLATION"),
        column("PREEMPTION"),
        column("TITLE", wide=True),
    ),
    key="name",
    path="/tiers",
    paged=False,
)

PREVIEW = Kind("preview", (column("DIGEST"), column("TENANTS")), key="digest")

IMPACT = Kind("impact", (column("DIGEST"), column("EXCESS", "excess_milli")), key="digest")

TIER_VERSION = Kind(
    "tier-version",
    (
        column("VERSION"),
        column("REASON"),
        column("BY", "actor.name"),
        age("created_at"),
        column("TERMS", wide=True),
    ),
    key="version",
)

CAPS = Kind(
    "caps",
    (
        column("ALLOCATIONS"),
        column("SLOTS", "slots_per_request"),
        column("WAITING"),
        column("BAND", "best_band"),
        column("SHAPES"),
        column("ZONES"),
        column("SPEND", "spend_hard_micro"),
        column("VERSION", wide=True),
    ),
    key="version",
    path="/caps",
)

BURST = Kind(
    "burst",
    (
        column("NAME"),
        column("ID"),
        column("CLASS", "resource_class"),
        units("EXTRA", "extra_milli"),
        column("STATE"),
        time("OPENS", "opens_at"),
        time("CLOSES", "closes_at"),
        column("EVERY S", "every_s", wide=True),
        column("THEN", "on_close", wide=True),
    ),
    path="/bursts",
    paged=False,
)

ENVELOPE_VERSION = Kind(
    "envelope-version",
    (
        column("CLASS", "resource_class"),
        column("VERSION"),
        column("ID"),
        units("NOMINAL", "nominal_milli"),
        units("BORROW", "borrow_milli"),
        units("LEND", "lend_milli"),
        time("FROM", "effective_from"),
        age("applied_at", "APPLIED"),
        age("cancelled_at", "CANCELLED", wide=True),
        column("REASON", wide=True),
    ),
    path="/envelope-versions",
    paged=False,
)

PROJECT_QUOTA = Kind(
    "project-quota",
    (
        column("CLASS", "resource_class"),
        units("LIMIT", "limit_milli"),
        units("USED", "used_milli"),
        units("EXCESS", "grandfathered_milli", wide=True),
    ),
    key="resource_class",
)
