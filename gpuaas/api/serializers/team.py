"""What goes over the wire about members, entitlements and the end of a project or a tenant?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Input, Output, Text
from gpuaas.api.serializers.access import TenantOut
from gpuaas.api.serializers.common import Listed, Reasoned
from placement.states import AllocationState
from tenants.models import Role
from tenants.services.entitlements import CATALOGUES


class MemberIn(Input):
    """A person who has an account, and the role they get."""

    email = Text(max_length=254)
    role = serializers.ChoiceField(choices=Role.choices)


class RoleIn(Input):
    """Another role for a member."""

    role = serializers.ChoiceField(choices=Role.choices)


class MemberOut(Output):
    """A person in the tenant."""

    id = serializers.UUIDField()
    email = serializers.CharField(source="user.email")
    full_name = serializers.CharField(source="user.full_name", allow_blank=True)
    role = serializers.ChoiceField(choices=Role.choices)
    created_at = serializers.DateTimeField()


class EntitlementIn(Reasoned):
    """A SKU that a tenant with a listed catalogue may ask for, for ever or until a moment."""

    sku = Text(max_length=60)
    until = serializers.DateTimeField(required=False, allow_null=True, default=None)


class EntitlementOut(Output):
    """A SKU that was granted."""

    sku = serializers.CharField(source="sku.name")
    title = serializers.CharField(source="sku.title")
    until = serializers.DateTimeField(allow_null=True)
    over = serializers.BooleanField(help_text="Whether its time has passed.")
    created_at = serializers.DateTimeField()


class EntitlementList(Listed):
    """Which SKUs a tenant may ask for: every published one, or those that are listed."""

    catalogue = serializers.ChoiceField(choices=CATALOGUES)
    items = EntitlementOut(many=True)


class CatalogueIn(Reasoned):
    """Every published SKU, or only those that were granted."""

    catalogue = serializers.ChoiceField(choices=CATALOGUES)


class HeldOut(Output):
    """An allocation that has not ended with proof."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    sku = serializers.CharField()
    slots = serializers.IntegerField(help_text="0 means the whole node.")
    state = serializers.ChoiceField(choices=AllocationState.choices)
    project = serializers.CharField()
    since = serializers.DateTimeField()


class DeletionOut(Output):
    """How far the end of a tenant has come: it ends when nothing is held any more."""

    tenant = TenantOut()
    held_count = serializers.IntegerField(help_text="Allocations without their proof.")
    held = HeldOut(many=True, help_text="The oldest of them, fifty at most.")
