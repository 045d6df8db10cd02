"""What can admission say, besides yes?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason


class AuthorityIncomplete(ProductError):
    """Nobody has said what the tenant may hold of this, so it may hold nothing."""

    code = "authority_incomplete"
    status = 403
    title = "The authority to decide this is incomplete"
    unblock = "The operator gives the tenant an envelope for the class that is named."


class SlotsOutOfRange(ProductError):
    """The SKU is not sold in this size."""

    code = "slots_out_of_range"
    status = 400
    title = "The SKU is not sold in this size"
    unblock = "Ask for a size within the SKU's limits, or choose another SKU."


class TierNotAllowed(ProductError):
    """The tenant's contract does not include this tier."""

    code = "tier_not_allowed"
    status = 403
    title = "The tenant does not have this tier"
    unblock = "Leave the tier out to use the tenant's own, or ask the operator to assign it."


class IsolationNotOffered(ProductError):
    """The tier promises more isolation than the SKU gives."""

    code = "isolation_not_offered"
    status = 403
    title = "The SKU does not give the isolation that the tier promises"
    unblock = "Choose a SKU with stronger isolation, such as a whole node."


class ImageUnknown(ProductError):
    """No image of this name starts this shape."""

    code = "image_unknown"
    status = 400
    title = "There is no such image for this shape"
    unblock = "List the images: gpuaas api GET /images."


class SshKeyMissing(ProductError):
    """A named key is not the tenant's."""

    code = "ssh_key_missing"
    status = 400
    title = "There is no such SSH key in the tenant"
    unblock = "Add the key first: gpuaas ssh-key add."


class WithdrawnAlready(ProductError):
    """The request has ended and cannot be withdrawn."""

    code = "request_ended"
    status = 409
    title = "The request has ended"
    unblock = "Release the allocation if it was admitted; otherwise nothing is left to do."


WAITING_FOR_CAPACITY = reason(
    "waiting_for_capacity",
    "Authorised; waiting until capacity is free",
    "Wait, ask for fewer slots, or choose another SKU.",
    status=202,
)
