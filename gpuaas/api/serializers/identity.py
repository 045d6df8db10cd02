"""What goes over the wire about programs, invitations and operators' looks?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Input, Output, Text, Whole
from gpuaas.api.serializers.common import Reasoned
from tenants.domain.roles import operator_scopes_of
from tenants.models import OperatorRole, Role, User
from tenants.services import break_glass


class ServiceAccountIn(Input):
    """A new identity for a program."""

    name = Text(max_length=120)
    role = Text(max_length=10, help_text="admin, member, viewer or billing; not above your own.")


class ServiceAccountOut(Output):
    """An identity of a program's."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    live_tokens = serializers.IntegerField(help_text="How many tokens of it work now.")
    disabled_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class InvitationIn(Input):
    """Whom to invite, as what."""

    email = Text(max_length=254)
    role = Text(max_length=10, help_text="owner, admin, member, viewer or billing.")


class NothingIn(Input):
    """A body without members."""


class InvitationOut(Output):
    """An invitation. Its secret is in the mail and nowhere else."""

    id = serializers.UUIDField()
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    expires_at = serializers.DateTimeField()
    accepted_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class WindowIn(Input):
    """Which tenant to look into, why, and for how long."""

    tenant = Text(max_length=64, help_text="Slug or id.")
    reason = Text(max_length=500, help_text="The tenant reads it. Ten characters or more.")
    minutes = Whole(min_value=1, max_value=break_glass.LONGEST_MINUTES, required=False, default=30)


class WindowOut(Output):
    """A window through which an operator looks at one tenant's own view."""

    id = serializers.UUIDField()
    operator = serializers.CharField(source="operator.email")
    tenant = serializers.UUIDField(source="tenant_id")
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()
    until = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class OperatorRoleIn(Reasoned):
    """Another role for an operator."""

    role = serializers.ChoiceField(choices=OperatorRole.choices)


class OperatorOut(Output):
    """An operator of the platform."""

    id = serializers.UUIDField()
    email = serializers.CharField()
    full_name = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(
        choices=OperatorRole.choices, source="operator_role", allow_blank=True
    )
    may = serializers.SerializerMethodField(help_text="What the role carries.")
    active = serializers.BooleanField(source="is_active")
    created_at = serializers.DateTimeField(source="date_joined")

    def get_may(self, row: User) -> list[str]:
        """The actions by name."""
        return operator_scopes_of(row.operator_role)
