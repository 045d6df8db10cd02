"""What can go wrong on the client's side of the wire, and what is kept of it?"""

from collections.abc import Mapping
from typing import Any

from gpuaas.cli.exits import Exit, exit_for_problem

Json = dict[str, Any]

_STANDARD_MEMBERS = frozenset(
    {
        "type",
        "title",
        "status",
        "detail",
        "instance",
        "code",
        "domain",
        "request_id",
        "retryable",
        "retry_after_s",
        "errors",
        "decision",
        "docs",
        "unblock",
        "facts",
    }
)


class CliError(Exception):
    """An error with an exit code, a message for people and an optional next step."""

    def __init__(self, message: str, exit_code: Exit = Exit.FAILURE, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint


class UsageError(CliError):
    """The command was given something it cannot use."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, Exit.USAGE, hint=hint)


class TransportError(CliError):
    """No usable answer came, after every retry. `timed_out` tells silence from refusal."""

    def __init__(self, message: str, *, timed_out: bool = False, hint: str = "") -> None:
        super().__init__(message, Exit.TIMEOUT if timed_out else Exit.FAILURE, hint=hint)
        self.timed_out = timed_out


class ProblemError(CliError):
    """The server answered with a problem (RFC 9457).

    `code` is permanent and safe to branch on; `detail` is for people. `facts` holds the
    numbers behind the refusal, `unblock` what would help.
    """

    def __init__(self, status: int, body: Mapping[str, Any], *, request_id: str = "") -> None:
        self.status = status
        self.type = str(body.get("type") or "about:blank")
        self.code = str(body.get("code") or f"http_{status}")
        self.title = str(body.get("title") or "")
        self.detail = str(body.get("detail") or "")
        self.request_id = str(body.get("request_id") or request_id)
        self.retryable = bool(body.get("retryable", False))
        self.unblock = str(body.get("unblock") or "")
        self.decision = str(body.get("decision") or "")
        self.docs = str(body.get("docs") or "")
        self.errors: list[Json] = [
            dict(entry) for entry in body.get("errors") or [] if isinstance(entry, Mapping)
        ]
        self.facts = problem_facts(body)
        self.body: Json = dict(body)
        super().__init__(
            self.detail or self.title or f"the server answered {status}",
            exit_for_problem(status, self.code),
        )


class WaitTimeout(CliError):
    """The awaited operation was still going when the caller's patience ended."""

    def __init__(self, operation: Json, waited_s: float) -> None:
        self.operation = operation
        super().__init__(
            f"operation {operation.get('id', '?')} is still "
            f"{operation.get('state', 'pending')} after {waited_s:.0f} s",
            Exit.PENDING,
            hint=f"gpuaas operation describe {operation.get('id', '')} --wait",
        )


class OperationFailed(CliError):
    """The awaited operation ended without success. `problem` says why, when the server did."""

    def __init__(self, operation: Json) -> None:
        self.operation = operation
        error = operation.get("error")
        self.problem = ProblemError(0, error) if isinstance(error, Mapping) else None
        detail = self.problem.message if self.problem else ""
        super().__init__(
            f"operation {operation.get('id', '?')} {operation.get('state', 'failed')}"
            + (f": {detail}" if detail else ""),
            Exit.FAILED_STATE,
        )


def problem_facts(body: Mapping[str, Any]) -> Json:
    """The numbers of a problem: its `facts` member plus every extension member it carries."""
    facts: Json = {k: v for k, v in body.items() if k not in _STANDARD_MEMBERS}
    inner = body.get("facts")
    if isinstance(inner, Mapping):
        facts.update(inner)
    return facts
