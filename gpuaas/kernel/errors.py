"""What can go wrong, and what is it called?  One catalogue of permanent reason codes.

Every refusal, wait and failure carries a code from here; API, CLI, portal and metrics
show the same word. A code is ``lower_snake``, unique and never reused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gpuaas.kernel import hints

_CODE = re.compile(r"^[a-z][a-z0-9_]{2,62}$")


@dataclass(frozen=True, slots=True)
class Reason:
    """One permanent code: what it means, and what would unblock it.

    ``hint`` names steps in braces, which ``unblock`` tells in the words of the reader's surface.
    """

    code: str
    title: str
    hint: str
    status: int
    retryable: bool = False

    @property
    def unblock(self) -> str:
        """What would help, in the reader's words."""
        return hints.worded(self.hint)

    @property
    def ways_out(self) -> dict[str, str]:
        """What would help, in the words of each surface."""
        return {str(where): hints.worded(self.hint, where) for where in hints.Surface}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field of a request; ``pointer`` is an RFC 6901 JSON pointer."""

    pointer: str
    code: str
    detail: str


_catalogue: dict[str, Reason] = {}
_classes: dict[str, type[ProductError]] = {}


def _register(entry: Reason) -> Reason:
    if not _CODE.match(entry.code):
        raise ValueError(f"reason code {entry.code!r} is not lower_snake")
    strange = hints.unknown_steps(entry.hint)
    if strange:
        raise ValueError(f"{entry.code}: no step is called {', '.join(strange)}")
    known = _catalogue.get(entry.code)
    if known is not None and known != entry:
        raise ValueError(f"reason code {entry.code!r} is declared twice")
    _catalogue[entry.code] = entry
    return entry


def reason(
    code: str, title: str, unblock: str, *, status: int = 409, retryable: bool = False
) -> Reason:
    """Declare a code that is shown without being raised (a gate's verdict, a wait).

    ``unblock`` may name steps of ``kernel.hints`` in braces.
    """
    return _register(Reason(code, title, unblock, status, retryable))


def catalogue() -> dict[str, Reason]:
    """Every declared code, by code."""
    return dict(sorted(_catalogue.items()))


def entry_of(code: str) -> Reason | None:
    """A declared code's entry; None of one that is not ours."""
    return _catalogue.get(code)


class ProductError(Exception):
    """A failure that a person is told about: code, status, numbers, way out.

    A class says its way out with the steps of ``kernel.hints`` in braces; an instance has it in
    the words of whoever made the request.
    """

    code: ClassVar[str] = ""
    status: ClassVar[int] = 400
    title: ClassVar[str] = ""
    unblock: str = ""
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in cls.__dict__:
            _register(Reason(cls.code, cls.title, cls.unblock, cls.status, cls.retryable))
            _classes[cls.code] = cls

    def __init__(
        self, detail: str = "", *, errors: tuple[FieldError, ...] = (), **facts: Any
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.unblock = hints.worded(type(self).unblock)
        self.errors = errors
        self.facts = facts
        self.keep = False

    def kept(self) -> Self:
        """The same error, whose records stay: a scope commits before it passes it on."""
        self.keep = True
        return self


def error_for(code: str, detail: str = "", **facts: Any) -> ProductError:
    """The declared error of a code, for a verdict that was reached as a value."""
    found = _classes.get(code)
    if found is None:
        raise LookupError(f"no error is declared for {code!r}")
    return found(detail, **facts)


class NotFound(ProductError):
    """The thing does not exist, or is not the caller's: the answer is the same."""

    code = "not_found"
    status = 404
    title = "There is no such object"
    unblock = "Check the name or id, and that you work in the right tenant and project."


class InvalidRequest(ProductError):
    """Some fields are wrong; each is named."""

    code = "invalid_request"
    status = 400
    title = "The request is not valid"
    unblock = "Correct the named fields and send the request again."

    @classmethod
    def of(cls, field: str, code: str, text: str) -> Self:
        """The refusal of one field at the top of the body."""
        return cls(f"{field}: {text}.", errors=(FieldError(f"/{field}", code, text),))


class PermissionDenied(ProductError):
    """The caller is known, but may not do this."""

    code = "permission_denied"
    status = 403
    title = "You may not do this"
    unblock = "Ask an owner or admin of the tenant for a role that allows it."


class TransitionRefused(ProductError):
    """The object is not in a state from which this move exists."""

    code = "transition_refused"
    status = 409
    title = "The object's state does not allow this"
    unblock = "Read the object again: its lifecycle page lists the moves from its state."


class ConcurrentUpdate(ProductError):
    """Somebody else changed the object first; nothing was changed here."""

    code = "concurrent_update"
    status = 409
    title = "The object changed in the meantime"
    unblock = "Read the object again and repeat the change."
    retryable = True


class PreconditionFailed(ProductError):
    """If-Match named another version."""

    code = "stale_resource_version"
    status = 412
    title = "The object has another version than If-Match names"
    unblock = "Read the object again, then {version}."


class OperationInProgress(ProductError):
    """Another operation on the object has not ended."""

    code = "operation_in_progress"
    status = 409
    title = "Another operation on this object is in progress"
    unblock = "Wait for the running operation, or end it: release what it makes."
    retryable = True


class ServiceUnavailable(ProductError):
    """A part that the request needs cannot be reached now."""

    code = "service_unavailable"
    status = 503
    title = "The service cannot answer now"
    unblock = "{repeat}."
    retryable = True
