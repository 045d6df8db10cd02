"""What goes over the wire about tenants that are never placed on one host?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Output, Query, Text
from gpuaas.api.serializers.common import Reasoned
from placement.services.separations import MOST


class SeparationIn(Reasoned):
    """All members of one set; who is left out is a member no more."""

    tenants = serializers.ListField(
        child=Text(max_length=64),
        min_length=2,
        max_length=MOST,
        help_text="Slugs or ids of the tenants that are never placed on one host.",
    )
    seen = Text(
        max_length=64,
        required=False,
        allow_null=True,
        default=None,
        help_text="The digest of the preview: it is set only while it would come to the same.",
    )


class SeparationSetQuery(Query):
    """How a change is answered."""

    dry_run = serializers.ChoiceField(
        choices=["server"], required=False, help_text="Show what it comes to, but change nothing."
    )


class SeparationRemoveQuery(Query):
    """Why it is removed."""

    reason = serializers.CharField(max_length=500, help_text="Why; kept in the audit log.")


class SeparationMember(Output):
    """One tenant of a set."""

    id = serializers.CharField()
    slug = serializers.CharField()


class SeparationOut(Output):
    """Tenants that are never placed on one host."""

    name = serializers.CharField()
    tenants = SeparationMember(many=True)
    reason = serializers.CharField()
    version = serializers.IntegerField()
    updated_at = serializers.DateTimeField()
    together = serializers.IntegerField(
        help_text="Hosts that members share now, from before it was set: nothing is moved."
    )


class SharedHost(Output):
    """A host that members share now."""

    host = serializers.CharField()
    tenants = serializers.ListField(child=serializers.CharField(), help_text="Their slugs.")


class SeparationPreviewOut(Output):
    """What a set would come to; nothing has changed."""

    name = serializers.CharField()
    added = serializers.ListField(child=serializers.CharField(), help_text="Slugs.")
    dropped = serializers.ListField(child=serializers.CharField(), help_text="Slugs.")
    together = SharedHost(many=True, help_text="Hosts that members share now: they stay there.")
    digest = serializers.CharField(help_text="What the change may name as seen.")
