"""What can go wrong between the wire and a service?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError


class Unauthenticated(ProductError):
    """Nobody we know."""

    code = "unauthenticated"
    status = 401
    title = "You are not signed in"
    unblock = "{sign_in}."


class CsrfRefused(ProductError):
    """A browser's session was used without the page's own token."""

    code = "csrf_refused"
    status = 403
    title = "The request did not come from one of our pages"
    unblock = "Send the CSRF token of the page, or use an API token instead of a session."


class TenantRequired(ProductError):
    """A tenant's address was asked by somebody who acts for no tenant."""

    code = "tenant_required"
    status = 403
    title = "This needs a tenant, and you act for none"
    unblock = "Use a token of a tenant, or name one of your tenants in the 'tenant' parameter."


class InsufficientScope(ProductError):
    """The token's scopes do not reach this far."""

    code = "insufficient_scope"
    status = 403
    title = "The token does not carry the scope that this needs"
    unblock = "Make a token with the scope named in the facts."


class MethodRefused(ProductError):
    """The address exists, the method does not."""

    code = "method_not_allowed"
    status = 405
    title = "This address does not take this method"
    unblock = "Use one of the methods in the Allow header."


class Conflict(ProductError):
    """The database's own rule refused the change."""

    code = "conflict"
    status = 409
    title = "The change contradicts what is there already"
    unblock = "Read the objects again and repeat the change where it still makes sense."


class BodyTooLarge(ProductError):
    """More than one request may carry."""

    code = "body_too_large"
    status = 413
    title = "The request's body is too large"
    unblock = "Send at most 1 MiB."


class UnsupportedMedia(ProductError):
    """A body that is not JSON."""

    code = "unsupported_media_type"
    status = 415
    title = "The body's media type is not supported"
    unblock = "Send JSON as 'Content-Type: application/json'."


class MalformedJson(ProductError):
    """A body that is not the JSON it says it is."""

    code = "malformed_json"
    status = 400
    title = "The body is not acceptable JSON"
    unblock = "Correct the body at the place that the pointer names."


class CursorInvalid(ProductError):
    """A cursor that this list did not give out for these filters."""

    code = "cursor_invalid"
    status = 400
    title = "The cursor does not belong to this list"
    unblock = "Start again without a cursor; a cursor is good only with the filters it came from."


class PreconditionRequired(ProductError):
    """A change that must say which version it changes."""

    code = "precondition_required"
    status = 428
    title = "If-Match is required"
    unblock = "Read the object, then {version}."


class IdempotencyKeyRequired(ProductError):
    """A creation that could not be repeated safely."""

    code = "idempotency_key_required"
    status = 400
    title = "An Idempotency-Key is required"
    unblock = "Send a fresh UUID in Idempotency-Key, and the same one when repeating the request."


class IdempotencyKeyMalformed(ProductError):
    """A key that cannot be remembered."""

    code = "idempotency_key_malformed"
    status = 400
    title = "The Idempotency-Key is not usable"
    unblock = "Send 1 to 255 printable ASCII characters, such as a UUID."


class RateLimited(ProductError):
    """Too many requests from one principal."""

    code = "rate_limited"
    status = 429
    title = "Too many requests"
    unblock = "Wait for the seconds in Retry-After."
    retryable = True


class HostsBusy(ProductError):
    """More hosts speak at once than are answered beside tenants."""

    code = "hosts_busy"
    status = 503
    title = "Too many hosts speak at once"
    unblock = "Wait for the seconds in Retry-After; the agent does so by itself."
    retryable = True


class InternalError(ProductError):
    """Our fault; the request id finds it in the log."""

    code = "internal_error"
    status = 500
    title = "Something went wrong on our side"
    unblock = "{repeat}; report the request id if it stays."
    retryable = True


class BadRequest(ProductError):
    """A request refused before it reached any address."""

    code = "bad_request"
    status = 400
    title = "The request is malformed"
    unblock = "Check the address, the host and the headers."


class SignInRefused(ProductError):
    """Wrong address or password, or too many tries: the answer is the same."""

    code = "sign_in_refused"
    status = 401
    title = "The e-mail address and password do not match"
    unblock = "Check both; after several wrong tries wait a quarter of an hour."
