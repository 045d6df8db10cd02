"""What goes over the wire about quota, caps, bursts, cohorts, tiers and data sets?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import Flag, Input, JsonObject, Output, Paged, Text, Whole
from gpuaas.api.serializers.common import ActorOut, Listed, Named, Reasoned
from tenants.domain.amounts import MOST
from tenants.models import OnExcess
from tenants.states import BurstState, IncreaseState


def _amount(**how: Any) -> Whole:
    return Whole(min_value=how.pop("least", 0), max_value=MOST, **how)


class QuotaOut(Output):
    """One class: what is the tenant's, what it holds, borrows and lends, in thousandths."""

    resource_class = serializers.CharField()
    limit_milli = serializers.IntegerField(help_text="The nominal in force.")
    borrow_milli = serializers.IntegerField(help_text="How far beyond it, while the cohort has it.")
    used_milli = serializers.IntegerField()
    free_milli = serializers.IntegerField(help_text="What could be taken now, all limits counted.")
    borrowed_milli = serializers.IntegerField(help_text="Held beyond the nominal.")
    lent_milli = serializers.IntegerField(help_text="What others use of the nominal.")
    lendable_milli = serializers.IntegerField(help_text="What others could use of it now.")
    guaranteed_milli = serializers.IntegerField(help_text="The part that is never lent.")
    grandfathered_milli = serializers.IntegerField(help_text="Held from before the limit fell.")
    cohort = serializers.CharField(allow_blank=True)
    cohort_free_milli = serializers.IntegerField(allow_null=True)
    project_limit_milli = serializers.IntegerField(allow_null=True)
    project_used_milli = serializers.IntegerField()
    admitting = serializers.BooleanField()


class QuotaList(Listed):
    """All classes of a tenant."""

    items = QuotaOut(many=True)


class IncreaseQuery(Paged):
    """Filters of the list of wishes."""

    state = serializers.ChoiceField(choices=IncreaseState.choices, required=False)


class IncreaseIn(Input):
    """A wish for a larger envelope."""

    resource_class = Text(max_length=60)
    nominal_asked_milli = _amount(least=1)
    justification = Text(max_length=2000)


class IncreaseGrant(Reasoned):
    """An operator's grant: what was asked, or another amount."""

    nominal_granted_milli = _amount(least=1, required=False, allow_null=True, default=None)


class IncreaseOut(Output):
    """A wish, and what became of it. The platform's numbers are for operators."""

    id = serializers.UUIDField()
    tenant = Named()
    resource_class = serializers.CharField()
    state = serializers.ChoiceField(choices=IncreaseState.choices)
    nominal_before_milli = serializers.IntegerField()
    nominal_asked_milli = serializers.IntegerField()
    nominal_granted_milli = serializers.IntegerField(allow_null=True)
    justification = serializers.CharField()
    asked_by = ActorOut()
    decided_at = serializers.DateTimeField(allow_null=True)
    decision_reason = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()
    request = serializers.UUIDField(
        allow_null=True, help_text="The admission request with the decision on it."
    )
    granted_milli = serializers.IntegerField(
        required=False, help_text="Promised of the class to all tenants now."
    )
    granted_after_milli = serializers.IntegerField(
        required=False, help_text="Promised with this wish granted."
    )
    deliverable_milli = serializers.IntegerField(
        required=False, help_text="What the approved capacity of the class comes to."
    )
    overcommitted = serializers.BooleanField(required=False)


def _places() -> serializers.ListField:
    return serializers.ListField(
        child=Text(max_length=120), max_length=64, required=False, default=list
    )


class DataSetPlaces(Input):
    """Where a set of data lies from now on."""

    zones = _places()
    racks = _places()
    nodes = _places()
    storage = _places()
    required: Any = Flag(required=False, default=True)


class DataSetIn(DataSetPlaces):
    """Where a set of data lies, by its name."""

    name = Text(max_length=120)


class DataSetOut(Output):
    """The version of a data set that holds."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    version = serializers.IntegerField()
    zones = serializers.ListField(child=serializers.CharField())
    racks = serializers.ListField(child=serializers.CharField())
    nodes = serializers.ListField(child=serializers.CharField())
    storage = serializers.ListField(child=serializers.CharField())
    required: Any = serializers.BooleanField()
    declared_by = ActorOut()
    created_at = serializers.DateTimeField()


class DataSetVersionOut(DataSetOut):
    """One version of a data set, in force or not."""

    retired_at = serializers.DateTimeField(allow_null=True)


class DataSetList(Listed):
    """The tenant's data sets, by name."""

    items = DataSetOut(many=True)


class StorageIn(Input):
    """Storage that is offered; without zones it is reached from all."""

    name = Text(max_length=120)
    kind = Text(max_length=40, help_text="Such as nvme or lustre; a request may need it.")
    zones = _places()
    reason = Text(max_length=500)


class StorageOut(Output):
    """Storage in the version that holds."""

    name = serializers.CharField()
    kind = serializers.CharField()
    version = serializers.IntegerField()
    zones = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()


class StorageList(Listed):
    """What is offered, by name."""

    items = StorageOut(many=True)


class CapsOut(Output):
    """Limits beside the envelopes; null or an empty list sets none. Money in millionths."""

    allocations = serializers.IntegerField(allow_null=True)
    slots_per_request = serializers.IntegerField(allow_null=True)
    waiting = serializers.IntegerField(allow_null=True)
    best_band = serializers.IntegerField(allow_null=True)
    shapes = serializers.ListField(child=serializers.CharField())
    zones = serializers.ListField(child=serializers.CharField())
    spend_soft_micro = serializers.IntegerField(allow_null=True)
    spend_hard_micro = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField()


def _cap(least: int = 0, most: int = MOST) -> Whole:
    return Whole(min_value=least, max_value=most, required=False, allow_null=True)


class CapsIn(Reasoned):
    """The caps to change; null lifts one, what is not named stays."""

    allocations = _cap(most=1_000_000)
    slots_per_request = _cap(least=1, most=4096)
    waiting = _cap(most=1_000_000)
    best_band = _cap(most=1000)
    shapes = serializers.ListField(child=Text(max_length=16), max_length=8, required=False)
    zones = serializers.ListField(child=Text(max_length=40), max_length=64, required=False)
    spend_soft_micro = _cap()
    spend_hard_micro = _cap()


def _seen() -> Text:
    return Text(
        max_length=64,
        required=False,
        help_text="The digest of the preview; refused when it would touch something else now.",
    )


class EnvelopeTerms(Input):
    """What a tenant may hold of a class; what is not named stays as it is."""

    nominal_milli = _amount()
    borrow_milli = _amount(required=False, help_text="How far beyond it, from the cohort.")
    lend_milli = _amount(
        required=False, allow_null=True, help_text="What is lent when unused; null: all of it."
    )
    on_excess = serializers.ChoiceField(
        choices=OnExcess.choices,
        required=False,
        help_text="What happens to what is held beyond it; without one, less than is held is "
        "refused.",
    )
    drain_after_s = Whole(min_value=0, max_value=90 * 86_400, required=False)


class EnvelopePreviewIn(Input):
    """The envelope that would be set; what is not named stays as it is."""

    nominal_milli = _amount()
    borrow_milli = _amount(required=False)
    lend_milli = _amount(required=False, allow_null=True)
    effective_from = serializers.DateTimeField(required=False, help_text="None: now.")


class EnvelopePreviewOut(Output):
    """Whom and what another envelope touches."""

    excess_milli = serializers.IntegerField(help_text="Held beyond it; it needs a policy.")
    used_milli = serializers.IntegerField()
    allocations = serializers.IntegerField()
    lines = serializers.ListField(
        child=serializers.CharField(), help_text="Each number that changes, in milli-units."
    )
    digest = serializers.CharField(help_text="What the change may name as seen.")


class EnvelopeIn(EnvelopeTerms):
    """An envelope from now on."""

    seen = _seen()
    reason = Text(max_length=500, required=False, allow_blank=True, default="")


class EnvelopeVersionIn(EnvelopeTerms):
    """A version from a moment on."""

    effective_from = serializers.DateTimeField()
    seen = _seen()
    reason = Text(max_length=500)


class EnvelopeVersionOut(Output):
    """One version of an envelope."""

    id = serializers.UUIDField()
    resource_class = serializers.CharField(source="resource_class.name")
    version = serializers.IntegerField()
    nominal_milli = serializers.IntegerField()
    borrow_milli = serializers.IntegerField()
    lend_milli = serializers.IntegerField(allow_null=True)
    on_excess = serializers.ChoiceField(choices=OnExcess.choices)
    drain_after_s = serializers.IntegerField()
    effective_from = serializers.DateTimeField()
    applied_at = serializers.DateTimeField(allow_null=True)
    cancelled_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    actor = ActorOut()


class EnvelopeVersionList(Listed):
    """Versions, by class, the latest first."""

    items = EnvelopeVersionOut(many=True)


class ProjectQuotaIn(Input):
    """What a project may hold of a class; null: only the tenant's limit."""

    limit_milli = _amount(allow_null=True)
    reason = Text(max_length=500)
    on_excess = serializers.ChoiceField(choices=OnExcess.choices, required=False)


class ProjectQuotaOut(Output):
    """What a project may hold of a class, and holds."""

    project = serializers.UUIDField(source="project_id")
    resource_class = serializers.CharField(source="resource_class.name")
    limit_milli = serializers.IntegerField(allow_null=True)
    used_milli = serializers.IntegerField()
    grandfathered_milli = serializers.IntegerField()


class BurstIn(Reasoned):
    """When and how far a tenant may borrow more."""

    resource_class = Text(max_length=60)
    name = Text(max_length=120)
    extra_milli = _amount(least=1)
    opens_at = serializers.DateTimeField()
    closes_at = serializers.DateTimeField()
    every_s = Whole(
        min_value=1, max_value=366 * 86_400, required=False, allow_null=True, default=None
    )
    on_close = serializers.ChoiceField(
        choices=OnExcess.choices, required=False, default=OnExcess.GRANDFATHER
    )


class BurstOut(Output):
    """A burst rule."""

    id = serializers.UUIDField()
    resource_class = serializers.CharField(source="resource_class.name")
    name = serializers.CharField()
    extra_milli = serializers.IntegerField()
    opens_at = serializers.DateTimeField()
    closes_at = serializers.DateTimeField()
    every_s = serializers.IntegerField(allow_null=True)
    on_close = serializers.ChoiceField(choices=OnExcess.choices)
    state = serializers.ChoiceField(choices=BurstState.choices)
    version = serializers.IntegerField()


class BurstList(Listed):
    """A tenant's burst rules, those to come first."""

    items = BurstOut(many=True)


class CohortIn(Input):
    """A new cohort, under a parent or as a root."""

    name = Text(max_length=60)
    title = Text(max_length=120, required=False, allow_blank=True, default="")
    parent: Any = Text(max_length=60, required=False, allow_null=True, default=None)


class CohortLimitsIn(Reasoned):
    """What a cohort may borrow from its parent and lends to it; null: no limit of its own."""

    borrow_milli = _amount(allow_null=True)
    lend_milli = _amount(allow_null=True)


class CohortClass(Output):
    """A cohort's numbers in one class, in thousandths."""

    resource_class = serializers.CharField()
    quota_milli = serializers.IntegerField(help_text="What its members share.")
    used_milli = serializers.IntegerField(help_text="What they have taken of it.")
    guaranteed_milli = serializers.IntegerField()
    borrow_milli = serializers.IntegerField(allow_null=True)
    lend_milli = serializers.IntegerField(allow_null=True)
    grandfathered_milli = serializers.IntegerField()


class CohortOut(Output):
    """A cohort."""

    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    parent: Any = serializers.CharField(allow_null=True)
    depth = serializers.IntegerField()
    tenants = serializers.ListField(child=serializers.CharField(), help_text="Slugs.")
    classes = CohortClass(many=True)


class CohortList(Listed):
    """All cohorts, parents before children."""

    items = CohortOut(many=True)


class TenantCohortIn(Reasoned):
    """The cohort of a tenant; null: none."""

    cohort = Text(max_length=60, allow_null=True)


class SuspensionIn(Reasoned):
    """What a suspension does to running work."""

    suspension = serializers.ChoiceField(choices=["keep", "release"])


class SuspendIn(Reasoned):
    """A suspension, with the policy for what runs, if it is to be another than the tenant's."""

    suspension = serializers.ChoiceField(choices=["keep", "release"], required=False)


class TierOut(Output):
    """A service level: what its version in force promises."""

    name = serializers.CharField()
    title = serializers.CharField()
    version = serializers.IntegerField()
    priority_band = serializers.IntegerField(help_text="0 goes first.")
    preemptible = serializers.BooleanField()
    protected_run_s = serializers.IntegerField()
    isolation = serializers.CharField()
    availability_ppm = serializers.IntegerField()
    provision_target_s = serializers.IntegerField()
    throughput_floor_permille = serializers.IntegerField()
    checkpoint_grace_s = serializers.IntegerField()
    degradation_rank = serializers.IntegerField()
    preemption = serializers.CharField()
    credit_ladder = serializers.ListField(child=JsonObject())


class TierList(Listed):
    """All tiers, the most urgent first."""

    items = TierOut(many=True)


class TierVersionOut(Output):
    """What a tier promised from a moment on."""

    version = serializers.IntegerField()
    terms = JsonObject()
    reason = serializers.CharField(allow_blank=True)
    actor = ActorOut()
    created_at = serializers.DateTimeField()


class TierTerms(Input):
    """The terms to change; the names are those of the tier."""

    terms = JsonObject()


class TierChangeIn(Reasoned):
    """A change of terms, naming the preview that was looked at."""

    terms = JsonObject()
    seen = Text(max_length=64, help_text="The digest of the preview.")


class TierIn(Reasoned):
    """A new tier; terms that are not named keep their default."""

    name = Text(max_length=40)
    title = Text(max_length=120)
    terms = JsonObject()


class TenantTierPreviewIn(Input):
    """The tier that a tenant would get."""

    tier = Text(max_length=40)


class TenantTierIn(Reasoned):
    """The tier that a tenant gets, naming the preview that was looked at."""

    tier = Text(max_length=40)
    seen = Text(max_length=64, help_text="The digest of the preview.")


class TermChange(Output):
    """One term before and after."""

    term = serializers.CharField()
    before: Any = serializers.JSONField(allow_null=True)
    after: Any = serializers.JSONField(allow_null=True)
    worse = serializers.BooleanField(help_text="Whether the tenant loses by it.")


class LeaseOut(Output):
    """A running lease that is touched."""

    id = serializers.CharField()
    name = serializers.CharField()
    sku = serializers.CharField()
    isolation = serializers.CharField()


class PreviewOut(Output):
    """Whom and what a change touches."""

    tenants = serializers.ListField(child=serializers.CharField())
    changes = TermChange(many=True)
    leases = LeaseOut(many=True)
    broken = serializers.ListField(
        child=serializers.CharField(), help_text="Leases with less isolation than promised."
    )
    digest = serializers.CharField(help_text="What the change must name as seen.")
