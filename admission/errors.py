"""What can admission say, besides yes?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError, reason


class AuthorityIncomplete(ProductError):
    """Nobody has said what the tenant may hold of this, so it may hold nothing."""

    code = "authority_incomplete"
    status = 403
    title = "The authority to decide this is incomplete"
    unblock = (
        "The operator completes what is named: envelope, priority class, isolation, preemption "
        "policy or pool. A request that may wait ({wait}) is admitted by that."
    )


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
    unblock = "List the images: {images}."


class SshKeyMissing(ProductError):
    """A named key is not the tenant's."""

    code = "ssh_key_missing"
    status = 400
    title = "There is no such SSH key in the tenant"
    unblock = "Add the key first: {ssh_key}."


class WithdrawnAlready(ProductError):
    """The request has ended and cannot be withdrawn."""

    code = "request_ended"
    status = 409
    title = "The request has ended"
    unblock = "Release the allocation if it was admitted; otherwise nothing is left to do."


class EntitlementMissing(ProductError):
    """The SKU is not among those that the tenant may ask for."""

    code = "entitlement_missing"
    status = 403
    title = "The tenant may not ask for this SKU"
    unblock = "Choose a SKU from the tenant's catalogue, or ask the operator for the entitlement."


class PolicyForbids(ProductError):
    """An operator's rule forbids this; its message says why."""

    code = "policy_forbids"
    status = 403
    title = "A policy of the platform forbids this"
    unblock = "Read the rule's message; change what it names, or ask the platform's operator."


class PolicyBroken(ProductError):
    """An active rule could not be evaluated, and nobody knows what it would have said."""

    code = "policy_broken"
    status = 403
    title = "A policy of the platform cannot be evaluated"
    unblock = "Tell the operator the rule's name: it has to be repaired or retired."


class PolicyInvalid(ProductError):
    """The rule may not be kept as it is written."""

    code = "policy_invalid"
    status = 400
    title = "The policy rule is not valid"
    unblock = "Correct the named field; the rule's page lists the facts and functions."


class PolicyTestsFailed(ProductError):
    """A rule's own tests have to pass before it is tried out or switched on."""

    code = "policy_tests_failed"
    status = 409
    title = "The rule's own tests do not pass"
    unblock = "Correct the expression or the test, and save a new version."


class SharingNotEligible(ProductError):
    """This workload may not share its GPUs with another."""

    code = "sharing_not_eligible"
    status = 403
    title = "This may not share GPUs"
    unblock = "Choose a tier and a SKU that allow sharing, or keep the GPUs for yourself."


class MemoryExceeded(ProductError):
    """What the workload needs does not fit into the GPUs' memory."""

    code = "gpu_memory_exceeded"
    status = 409
    title = "It does not fit into the memory of the GPUs"
    unblock = "Ask for more slots a replica, a smaller batch or context, or a smaller model."


class MemoryUnknown(ProductError):
    """The memory of the SKU's GPUs, or what the model needs, is not known."""

    code = "gpu_memory_unknown"
    status = 409
    title = "It is not known whether it fits into the memory of the GPUs"
    unblock = "Give the model's figures; the operator sees to it that the family's memory is known."


class ForbiddenByLocality(ProductError):
    """Capacity exists, but not where the request has to run."""

    code = "forbidden_by_locality"
    status = 409
    title = "There is capacity, but not where this has to run"
    unblock = "Allow other zones, commit the data elsewhere as well, or wait for capacity there."
    retryable = True


class DataSetUnknown(ProductError):
    """The tenant has declared no such data set."""

    code = "dataset_unknown"
    status = 400
    title = "There is no such data set in the tenant"
    unblock = "Declare the data set first, with the zones, racks or nodes that hold it."


class StorageNotOffered(ProductError):
    """The storage that is needed is not offered, or not any more."""

    code = "storage_not_offered"
    status = 409
    title = "The storage that this needs is not offered"
    unblock = "Ask for another kind of storage, or ask the operator which storage there is."


class LocalityConflict(ProductError):
    """No place satisfies all that was required at once."""

    code = "locality_conflict"
    status = 409
    title = "The required places have nothing in common"
    unblock = "Require fewer data sets or zones at once, or commit the data in a common place."


class WorkloadStateRefused(ProductError):
    """The workload is not in a state in which this can be done."""

    code = "workload_state_refused"
    status = 409
    title = "The workload's state does not allow this"
    unblock = "Look at the workload: one that has ended is submitted anew."


WAITING_FOR_CAPACITY = reason(
    "waiting_for_capacity",
    "Authorised; waiting until capacity is free",
    "Wait, ask for fewer slots, or choose another SKU.",
    status=202,
)
WAITING_FOR_APPROVAL = reason(
    "waiting_for_approval",
    "Nothing forbids it; an operator has to approve it",
    "Wait for the operator's word, or withdraw the request.",
    status=202,
)


class ApprovalRefused(ProductError):
    """An operator refused what needed an approval, and said why."""

    code = "approval_refused"
    status = 403
    title = "The platform's operator refused it"
    unblock = "Read the reason that was given; ask again when what it names has changed."
