"""Which columns does each kind of object have in a table, and where does it live in the API?"""

from gpuaas.cli import values
from gpuaas.cli.output import Column, Kind, column, member
from gpuaas.cli.problems import Json


def _money(name: str, path: str, *, wide: bool = False) -> Column:
    def read(item: Json) -> str:
        currency = values.text(item.get("currency")) if item.get("currency") else ""
        return values.money(member(item, path), currency)

    return Column(name, read, wide)


def units(name: str, path: str, *, wide: bool = False) -> Column:
    return Column(name, lambda item: values.units(member(item, path)), wide)


def age(path: str, name: str = "AGE", *, wide: bool = False) -> Column:
    return Column(name, lambda item: values.age(member(item, path)), wide)


def time(name: str, path: str, *, wide: bool = False) -> Column:
    return Column(name, lambda item: values.clock_time(member(item, path)), wide)


def _named(name: str, path: str, *, wide: bool = False) -> Column:
    """A member that is either a name or an object with one."""

    def read(item: Json) -> str:
        value = member(item, path)
        if isinstance(value, dict):
            value = value.get("name") or value.get("id")
        return values.text(value)

    return Column(name, read, wide)


SKU = Kind(
    "sku",
    (
        column("NAME"),
        column("SHAPE"),
        Column("SLOTS", lambda item: sizes(item)),
        column("CLASS", "resource_class"),
        _money("PRICE/H", "price_hour_micro"),
        column("STATE"),
        column("FAMILY", wide=True),
        column("POOL", wide=True),
        column("TITLE", wide=True),
    ),
    key="name",
    path="/skus",
)

POOL = Kind(
    "pool",
    (column("NAME"), column("NODES"), column("TITLE")),
    key="name",
    path="/pools",
)

FAMILY = Kind(
    "family",
    (column("NAME"), column("SLOTS"), column("NODES"), column("GPU", "gpu_model"), column("TITLE")),
    key="name",
    path="/families",
)

IMAGE = Kind(
    "image",
    (column("NAME"), column("SHAPES"), column("ACCOUNT", "username"), column("TITLE")),
    key="name",
    path="/images",
)

REASON = Kind(
    "reason",
    (
        column("CODE"),
        column("STATUS"),
        column("TITLE"),
        column("HELPS", "unblock", wide=True),
    ),
    key="code",
    path="/reasons",
    paged=False,
)

OFFER = Kind(
    "offer",
    (
        column("SKU"),
        column("SHAPE"),
        _money("PRICE/H", "price_hour_micro"),
        column("AVAILABLE", "available_now"),
        column("LARGEST", "largest_fit"),
        column("REASON"),
        Column("SLOTS", lambda item: sizes(item), True),
        column("FAMILY", wide=True),
        column("CLASS", "resource_class", wide=True),
        column("DETAIL", wide=True),
    ),
    key="sku",
    path="/offers",
    paged=False,
)

PROJECT = Kind(
    "project",
    (
        column("SLUG"),
        column("NAME"),
        column("ID"),
        _named("TENANT", "tenant", wide=True),
        age("created_at"),
    ),
    key="slug",
    path="/projects",
)

SSH_KEY = Kind(
    "ssh-key",
    (column("NAME"), column("ID"), column("FINGERPRINT"), age("created_at")),
    path="/ssh-keys",
    aliases=("ssh_key", "key"),
)

TOKEN = Kind(
    "token",
    (
        column("NAME"),
        column("ID"),
        column("SCOPES"),
        time("EXPIRES", "expires_at"),
        age("last_used_at", "LAST USED"),
        column("KEY", "key", wide=True),
        age("created_at", wide=True),
    ),
    path="/tokens",
)

QUOTA = Kind(
    "quota",
    (
        column("CLASS", "resource_class"),
        units("NOMINAL", "limit_milli"),
        units("USED", "used_milli"),
        units("FREE", "free_milli"),
        units("BORROWED", "borrowed_milli"),
        units("LENT", "lent_milli"),
        units("LENDABLE", "lendable_milli", wide=True),
        column("COHORT", "cohort", wide=True),
        units("MAY BORROW", "borrow_milli", wide=True),
        units("EXCESS", "grandfathered_milli", wide=True),
    ),
    key="resource_class",
    path="/quota",
    paged=False,
)

INCREASE = Kind(
    "quota-increase",
    (
        column("ID"),
        _named("TENANT", "tenant"),
        column("CLASS", "resource_class"),
        column("STATE"),
        units("HAD", "nominal_before_milli"),
        units("ASKED", "nominal_asked_milli"),
        units("GRANTED", "nominal_granted_milli"),
        units("PROMISED", "granted_after_milli", wide=True),
        units("DELIVERABLE", "deliverable_milli", wide=True),
        age("created_at"),
    ),
    path="/quota-increases",
)

POLICY = Kind(
    "policy",
    (
        column("ID"),
        column("NAME"),
        column("VERSION", "rule_version"),
        column("STATE"),
        column("LOOKED AT", "report.looked_at"),
        column("NEWLY REFUSED", "report.newly_refused"),
        column("EXPRESSION", "expression", wide=True),
    ),
    path="/policies",
)

WORKLOAD = Kind(
    "workload",
    (
        column("NAME"),
        column("ID"),
        column("KIND"),
        column("SKU"),
        column("REPLICAS"),
        Column("SLOTS", lambda item: slots(item)),
        column("STATE"),
        column("REASON"),
        _named("PROJECT", "project"),
        age("created_at"),
    ),
    path="/workloads",
)

ALLOCATION = Kind(
    "allocation",
    (
        column("NAME"),
        column("ID"),
        column("SKU"),
        Column("SLOTS", lambda item: slots(item)),
        column("STATE"),
        column("PHASE"),
        _named("PROJECT", "project"),
        age("created_at"),
        column("OUTCOME", wide=True),
        column("TIER", wide=True),
        column("CONNECT", "connection.command", wide=True),
        _money("PRICE/H", "price_hour_micro", wide=True),
        _named("NODE", "node", wide=True),
    ),
    path="/allocations",
    aliases=("alloc",),
)

REQUEST = Kind(
    "request",
    (
        column("NAME"),
        column("ID"),
        column("ACTION"),
        column("SKU"),
        Column("SLOTS", lambda item: slots(item)),
        column("STATE"),
        column("REASON"),
        _named("PROJECT", "project"),
        age("created_at"),
        column("OUTCOME", wide=True),
        column("TIER", wide=True),
        column("ALLOCATION", wide=True),
        column("DETAIL", wide=True),
    ),
    path="/admission-requests",
    aliases=("admission-request", "admission_request"),
)

OPERATION = Kind(
    "operation",
    (
        column("ID"),
        column("KIND"),
        Column("TARGET", lambda item: target(item) or "-"),
        column("STATE"),
        column("STEP", "progress.step"),
        age("created_at"),
        column("PERCENT", "progress.percent", wide=True),
        column("ATTEMPT", "metadata.attempt", wide=True),
        column("CANCELLABLE", wide=True),
    ),
    path="/operations",
)

NODE = Kind(
    "node",
    (
        column("NAME"),
        column("STATE"),
        column("POSTURE"),
        column("POOL"),
        column("SLOTS", "slots_total"),
        column("FREE", "slots_free"),
        column("HEALTH"),
        age("last_seen_at", "SEEN"),
        column("ID", wide=True),
        column("FAMILY", wide=True),
        column("INTENDED", wide=True),
        column("AGENT", "agent_version", wide=True),
        column("GENERATION", wide=True),
        column("BOOT", "boot_id", wide=True),
    ),
    key="name",
    path="/nodes",
)

TASK = Kind(
    "task",
    (
        column("ID"),
        column("KIND"),
        column("STATE"),
        column("ATTEMPT"),
        column("STEP"),
        column("ERROR", "error_code"),
        age("created_at"),
        column("ALLOCATION", wide=True),
        column("EPOCH", "lease_epoch", wide=True),
        column("DETAIL", "error_detail", wide=True),
    ),
)

XID = Kind(
    "xid",
    (
        time("WHEN", "created_at"),
        column("XID"),
        column("TIMES", "count"),
        column("GPU", "gpu_uuid"),
        column("MEANING"),
        column("FOLLOWS"),
        column("ALLOCATION", wide=True),
        column("BOOT", "boot_id", wide=True),
    ),
)

TENANT = Kind(
    "tenant",
    (
        column("SLUG"),
        column("NAME"),
        column("STATE"),
        column("TIER"),
        column("ID"),
        age("created_at"),
        column("REASON", "state_reason", wide=True),
    ),
    path="/tenants",
)

SERVICE_ACCOUNT = Kind(
    "service-account",
    (
        column("NAME"),
        column("ID"),
        column("ROLE"),
        column("TOKENS", "live_tokens"),
        age("disabled_at", "DISABLED"),
        age("created_at"),
    ),
    key="name",
    path="/service-accounts",
    aliases=("service_account",),
)

INVITATION = Kind(
    "invitation",
    (
        column("EMAIL"),
        column("ID"),
        column("ROLE"),
        time("EXPIRES", "expires_at"),
        age("accepted_at", "ACCEPTED"),
        age("revoked_at", "REVOKED"),
    ),
    path="/invitations",
)

OPERATOR = Kind(
    "operator",
    (
        column("EMAIL"),
        column("ROLE"),
        column("ACTIVE"),
        column("ID"),
        column("NAME", "full_name", wide=True),
        age("created_at", "SINCE"),
    ),
    path="/operators",
)

BREAK_GLASS = Kind(
    "break-glass",
    (
        column("ID"),
        column("OPERATOR"),
        column("TENANT"),
        column("REASON"),
        time("UNTIL", "until"),
        age("ended_at", "ENDED"),
        age("created_at"),
    ),
    path="/break-glass",
    aliases=("break_glass",),
)

EVENT = Kind(
    "event",
    (
        column("SEQ"),
        time("TIME", "at"),
        column("KIND"),
        Column("SUBJECT", lambda item: target(item, "subject") or "-"),
        _named("ACTOR", "actor"),
        column("REASON"),
        Column("CHANGE", lambda item: change(item), True),
        Column("FACTS", lambda item: values.facts(item.get("facts") or {}) or "-", True),
    ),
    path="/events",
)

TIMELINE = Kind(
    "event",
    (
        time("TIME", "at"),
        column("KIND"),
        Column("CHANGE", lambda item: change(item)),
        _named("ACTOR", "actor"),
        column("REASON"),
        Column("FACTS", lambda item: values.facts(item.get("facts") or {}) or "-", True),
    ),
)

CONTEXT = Kind(
    "context",
    (
        Column("CURRENT", lambda item: "*" if item.get("current") else ""),
        column("NAME"),
        column("SERVER"),
        column("TENANT"),
        column("PROJECT"),
        column("AUTH"),
    ),
    key="name",
)

CHECK = Kind("check", (column("CHECK", "name"), column("RESULT"), column("DETAIL")), key="name")

SHORTCUTS: dict[str, Kind] = {
    alias: kind
    for kind in (ALLOCATION, REQUEST, OPERATION, WORKLOAD)
    for alias in (kind.name, f"{kind.name}s", *kind.aliases)
}


def slots(item: Json) -> str:
    """How many slots are held; the server says 0 for a whole node."""
    return "node" if item.get("slots") == 0 else values.text(item.get("slots"))


def sizes(item: Json) -> str:
    """The sizes in which a SKU can be had."""
    if item.get("shape") == "baremetal":
        return "node"
    if item.get("part_profile"):
        return values.text(item["part_profile"])
    if item.get("part_milli"):
        return f"{values.text(item['part_milli'])}/1000 GPU"
    least, most = item.get("slots_min"), item.get("slots_max")
    return values.text(least) if least == most else f"{values.text(least)}-{values.text(most)}"


# What records call a kind, and what commands call it.
_SPOKEN = {
    "admissionrequest": "request",
    "admission_request": "request",
    "admission-request": "request",
    "workflowrun": "operation",
    "nodetask": "task",
    "sshkey": "ssh-key",
    "apitoken": "token",
}


def spoken(kind: object) -> str:
    """The commands' word for a record's kind: `admission.admissionrequest` is a request."""
    word = values.text(kind).rpartition(".")[2]
    return _SPOKEN.get(word, word)


def target(item: Json, name: str = "target") -> str:
    """`kind/ID` of the object that a record is about; "" when it names none."""
    about = item.get(name)
    if not isinstance(about, dict) or not about.get("id"):
        return ""
    return f"{spoken(about.get('kind'))}/{values.text(about['id'])}"


def change(item: Json) -> str:
    """`before → after` of a record, by state where it has one."""
    before, after = _state(item.get("before")), _state(item.get("after"))
    if before == after:
        return after
    return f"{before} \N{RIGHTWARDS ARROW} {after}"


def _state(value: object) -> str:
    if isinstance(value, dict):
        return values.text(value.get("state", value))
    return values.text(value)
