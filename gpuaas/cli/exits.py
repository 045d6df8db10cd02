"""Which exit code tells a script what happened?"""

from enum import IntEnum


class Exit(IntEnum):
    """The process exit codes. They are permanent: scripts branch on them."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    AUTH = 4
    CONFLICT = 5
    DENIED = 6
    UNAVAILABLE = 7
    PENDING = 8
    FAILED_STATE = 9
    TIMEOUT = 124
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "success",
    Exit.FAILURE: "failure: the server could not be reached or kept failing after retries",
    Exit.USAGE: "wrong usage, or the user said no",
    Exit.NOT_FOUND: "not found",
    Exit.AUTH: "not signed in, or not permitted",
    Exit.CONFLICT: "conflict, or a precondition did not hold (409, 412, 428)",
    Exit.DENIED: "denied by policy or quota, or it can never fit; the code is printed",
    Exit.UNAVAILABLE: "no capacity now, or none where it may be; the same call may work later",
    Exit.PENDING: "still pending when the --wait timeout ended",
    Exit.FAILED_STATE: "what was awaited ended in a failed state",
    Exit.TIMEOUT: "the server did not answer in time, after retries",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}

# Codes that decide by themselves; every other answer is judged by its HTTP status.
_DENIED_CODES = frozenset(
    {
        "authority_incomplete",
        "band_not_allowed",
        "cohort_exhausted",
        "entitlement_missing",
        "envelope_exceeded",
        "gpu_memory_exceeded",
        "gpu_memory_unknown",
        "isolation_not_offered",
        "locality_conflict",
        "never_fits",
        "policy_broken",
        "policy_forbids",
        "pool_dedicated",
        "project_quota_exceeded",
        "request_too_large",
        "shape_not_allowed",
        "sharing_not_eligible",
        "sku_not_published",
        "spend_cap_exceeded",
        "storage_not_offered",
        "tenant_not_active",
        "tenant_not_admitting",
        "tenant_pending",
        "tenant_suspended",
        "tier_not_allowed",
        "too_many_allocations",
        "too_many_waiting",
        "zone_not_allowed",
    }
)
_UNAVAILABLE_CODES = frozenset(
    {"sku_unavailable", "forbidden_by_locality", "forbidden_by_topology"}
)

_BY_STATUS = {
    400: Exit.USAGE,
    401: Exit.AUTH,
    403: Exit.AUTH,
    404: Exit.NOT_FOUND,
    405: Exit.USAGE,
    409: Exit.CONFLICT,
    410: Exit.NOT_FOUND,
    412: Exit.CONFLICT,
    413: Exit.USAGE,
    415: Exit.USAGE,
    422: Exit.USAGE,
    428: Exit.CONFLICT,
}


def exit_for_problem(status: int, code: str) -> Exit:
    """The exit code for an HTTP problem; `code` (stable, lower_snake) outranks the status."""
    normal = code.lower()
    if normal in _DENIED_CODES:
        return Exit.DENIED
    if normal in _UNAVAILABLE_CODES:
        return Exit.UNAVAILABLE
    if normal == "idempotency_key_reused":
        return Exit.CONFLICT
    return _BY_STATUS.get(status, Exit.FAILURE)
