"""What can go wrong with who, what is sold and how much is theirs?"""

from __future__ import annotations

from typing import Final

from gpuaas.kernel.errors import ProductError, reason


class TenantPending(ProductError):
    """The tenant has not been approved yet."""

    code = "tenant_pending"
    status = 403
    title = "The tenant waits for approval"
    unblock = "An operator approves the tenant; you are told by mail when it happens."


class TenantSuspended(ProductError):
    """The tenant is suspended: nothing new starts."""

    code = "tenant_suspended"
    status = 403
    title = "The tenant is suspended"
    unblock = "Ask the platform's operator why, and to resume the tenant."


class TenantNotActive(ProductError):
    """The tenant is rejected, being deleted, or gone."""

    code = "tenant_not_active"
    status = 403
    title = "The tenant is not active"
    unblock = "Sign up again, or work in another tenant."


class SkuUnknown(ProductError):
    """No SKU has this name."""

    code = "sku_unknown"
    status = 404
    title = "There is no SKU of this name"
    unblock = "List the catalogue: {catalogue}."


class SkuNotPublished(ProductError):
    """The SKU is a draft or retired."""

    code = "sku_not_published"
    status = 403
    title = "The SKU is not sold"
    unblock = "Choose a published SKU: {catalogue}."


class EnvelopeExceeded(ProductError):
    """The request and what is held exceed what the tenant may hold."""

    code = "envelope_exceeded"
    status = 403
    title = "The request exceeds the tenant's envelope"
    unblock = "Release something, ask for less, or ask the operator for a larger envelope."


class EnvelopeBelowUse(ProductError):
    """An envelope cannot be set below what the tenant holds."""

    code = "envelope_below_use"
    status = 409
    title = "The tenant holds more than that"
    unblock = "Set the envelope to what is held or more, or have the tenant release first."


class NameTaken(ProductError):
    """Something of this name exists already."""

    code = "name_taken"
    status = 409
    title = "The name is taken"
    unblock = "Choose another name."


class SshKeyInvalid(ProductError):
    """The text is not a public key that can be used."""

    code = "ssh_key_invalid"
    status = 400
    title = "This is not a usable public SSH key"
    unblock = "Paste one line such as the content of ~/.ssh/id_ed25519.pub."


class ScopeUnknown(ProductError):
    """A token cannot have a scope that does not exist, or that its maker lacks."""

    code = "scope_unknown"
    status = 400
    title = "There is no such scope"
    unblock = "Choose from the scopes that the API reference lists."


class SecondFactorNeeded(ProductError):
    """A code of the second factor has to come with this."""

    code = "second_factor_needed"
    status = 403
    title = "This needs your second factor"
    unblock = "Give a current code of your authenticator app: gpuaas --code, or /second-factor/."


class SecondFactorSetUpNeeded(ProductError):
    """Operators work with a second factor only."""

    code = "second_factor_setup_needed"
    status = 403
    title = "Operators need a second factor"
    unblock = "Sign in to the portal in a browser, set up a second factor, and try again."


class SecondFactorWrong(ProductError):
    """The code is not one of the person's, too old, or used already."""

    code = "second_factor_wrong"
    status = 403
    title = "The code is not right"
    unblock = "Wait for the next code of your authenticator app, or use a recovery code."


class SecondFactorLocked(ProductError):
    """Too many wrong codes; nothing is taken for a while."""

    code = "second_factor_locked"
    status = 429
    title = "Too many wrong codes"
    unblock = "Wait fifteen minutes, or ask another operator to reset your second factor."
    retryable = True


class SecondFactorExists(ProductError):
    """A person has one authenticator app."""

    code = "second_factor_exists"
    status = 409
    title = "A second factor is set up already"
    unblock = "Remove the one there is, then set up another."


class InvitationInvalid(ProductError):
    """Unknown, used, expired, revoked or another person's: the answer is the same."""

    code = "invitation_invalid"
    status = 404
    title = "The invitation is not good (any more)"
    unblock = "Sign in with the address that was invited, or ask for a new invitation."


class InvitationExists(ProductError):
    """The address has an open invitation, or is a member."""

    code = "invitation_exists"
    status = 409
    title = "The person is invited or a member already"
    unblock = "Revoke the open invitation first, or change the member's role."


class RoleAboveOwn(ProductError):
    """Nobody gives a role above their own."""

    code = "role_above_own"
    status = 403
    title = "You cannot give a role above your own"
    unblock = "Ask an owner of the tenant, or give a lower role."


class ServiceAccountDisabled(ProductError):
    """A disabled service account gets no tokens."""

    code = "service_account_disabled"
    status = 409
    title = "The service account is disabled"
    unblock = "Make another service account."


class PersonNeeded(ProductError):
    """A program cannot do what belongs to a person."""

    code = "person_needed"
    status = 403
    title = "This is for people, not for programs"
    unblock = "Do it as a person, with your own token or in the portal."


class BreakGlassReadOnly(ProductError):
    """Break-glass access looks; it changes nothing."""

    code = "break_glass_read_only"
    status = 403
    title = "Break-glass access is for reading"
    unblock = "Ask somebody of the tenant to do it, or use the operator's own actions."


class BreakGlassOpen(ProductError):
    """An operator has one window per tenant at a time."""

    code = "break_glass_open"
    status = 409
    title = "You have a window into this tenant already"
    unblock = "Use it, or end it and open another."


class CohortExhausted(EnvelopeExceeded):
    """The tenant's own limit would allow it, but its cohort has lent everything out."""

    code = "cohort_exhausted"
    status = 403
    title = "The cohort has no unused quota left to borrow"
    unblock = "Wait until another member releases something, or ask for a larger envelope."


class ProjectQuotaExceeded(EnvelopeExceeded):
    """The project has its own limit, and this would exceed it."""

    code = "project_quota_exceeded"
    status = 403
    title = "The request exceeds the project's quota"
    unblock = "Release something in the project, or have an owner raise the project's quota."


class TenantNotAdmitting(EnvelopeExceeded):
    """The tenant stopped being active while the request was decided."""

    code = "tenant_not_admitting"
    status = 403
    title = "The tenant stopped admitting requests meanwhile"
    unblock = "Look at the tenant's state; ask again when it is active."


QUOTA_REFUSALS: Final = {
    refusal.code: refusal
    for refusal in (EnvelopeExceeded, CohortExhausted, ProjectQuotaExceeded, TenantNotAdmitting)
}
"""What the function that charges quota answers, by the code in its hint."""


class ProjectQuotaBelowUse(ProductError):
    """A project's quota below what it holds needs a declared policy."""

    code = "project_quota_below_use"
    status = 409
    title = "The project holds more than that"
    unblock = "Say that the excess is grandfathered, or release something in the project first."


class ProjectNotEmpty(ProductError):
    """A project ends when nothing in it is held."""

    code = "project_not_empty"
    status = 409
    title = "The project still holds capacity"
    unblock = "Release the project's allocations, wait for their proofs, and delete it then."


class LastAdministrator(ProductError):
    """The platform would be left without an administrator."""

    code = "last_administrator"
    status = 409
    title = "This is the platform's only administrator"
    unblock = "Make another operator an administrator first."


class LastOwner(ProductError):
    """A tenant always has an owner."""

    code = "last_owner"
    status = 409
    title = "This is the tenant's only owner"
    unblock = "Make another member an owner first."


class TenantHoldsClaims(ProductError):
    """A tenant is deleted when it holds nothing; proof first."""

    code = "tenant_holds_claims"
    status = 409
    title = "The tenant still holds capacity"
    unblock = "Wait until everything it held has been released with proof."


class TooManyAllocations(ProductError):
    """The tenant's cap on live allocations is reached."""

    code = "too_many_allocations"
    status = 403
    title = "The tenant holds as many allocations as it may"
    unblock = "Release an allocation, or ask the operator for a higher cap."


class RequestTooLarge(ProductError):
    """One request asks for more slots than the tenant may ask for at once."""

    code = "request_too_large"
    status = 403
    title = "One request may not ask for that many slots"
    unblock = "Ask for fewer slots at once."


class TooManyWaiting(ProductError):
    """The tenant's cap on waiting requests is reached."""

    code = "too_many_waiting"
    status = 403
    title = "The tenant has as many waiting requests as it may"
    unblock = "Wait for one of them, or withdraw one."


class BandNotAllowed(ProductError):
    """The priority asked for is more urgent than the tenant may ask for."""

    code = "band_not_allowed"
    status = 403
    title = "The tenant may not ask for this priority"
    unblock = "Ask for a less urgent priority band."


class ShapeNotAllowed(ProductError):
    """The tenant's caps leave this shape out."""

    code = "shape_not_allowed"
    status = 403
    title = "The tenant may not lease this shape"
    unblock = "Choose a SKU of an allowed shape, or ask the operator to allow this one."


class ZoneNotAllowed(ProductError):
    """The tenant's caps leave this zone out."""

    code = "zone_not_allowed"
    status = 403
    title = "The tenant may not lease in this zone"
    unblock = "Choose an allowed zone, or ask the operator to allow this one."


class SpendCapExceeded(ProductError):
    """What is accrued and runs on would exceed the month's hard cap."""

    code = "spend_cap_exceeded"
    status = 403
    title = "The request would exceed the month's spend cap"
    unblock = "Release something, wait for the next month, or ask for a higher cap."


class IncreaseOpenAlready(ProductError):
    """A wish for more of this class waits for its decision already."""

    code = "increase_open_already"
    status = 409
    title = "A quota increase for this class is being decided already"
    unblock = "Wait for the decision, or withdraw the open one."


class PreviewStale(ProductError):
    """What the change touches is not what was shown."""

    code = "preview_stale"
    status = 409
    title = "What the change touches is not what was shown"
    unblock = "Look at the preview again and confirm that one."
    retryable = True


class CohortNotEmpty(ProductError):
    """A cohort ends when nobody is in it."""

    code = "cohort_not_empty"
    status = 409
    title = "The cohort still has members"
    unblock = "Move its tenants and its smaller cohorts out first."


class BurstWithoutCohort(ProductError):
    """A burst borrows; a tenant without a cohort has nobody to borrow from."""

    code = "burst_without_cohort"
    status = 409
    title = "The tenant has no cohort to borrow from"
    unblock = "Put the tenant into a cohort first, or raise its envelope instead."


class VersionInForce(ProductError):
    """A version that was applied cannot be called off."""

    code = "version_in_force"
    status = 409
    title = "This version is in force already, or was called off"
    unblock = "Set a new version instead."


ENVELOPE_LOWERED = reason(
    "envelope_lowered",
    "It was released because the tenant's envelope was lowered below what it held",
    "Ask the operator for a larger envelope.",
)
TENANT_DELETING = reason(
    "tenant_deleting",
    "It ended because the tenant is being deleted",
    "Work in another tenant.",
)
