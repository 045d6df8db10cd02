"""What goes over the wire about people, tokens, keys and projects?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Input, Output, Text, Whole
from gpuaas.api.serializers.common import Named
from tenants.domain import roles
from tenants.models import Role, ServiceAccount, Tenant
from tenants.states import TenantState

SCOPES = sorted([*roles.ACTIONS, *roles.OPERATOR_ACTIONS])


class SignupIn(Input):
    """A new account with a new tenant."""

    email = Text(max_length=254)
    password = Text(max_length=256, style={"input_type": "password"})
    tenant_name = Text(max_length=120)
    full_name = Text(max_length=120, required=False, allow_blank=True, default="")


class TenantOut(Output):
    """A tenant."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    state = serializers.ChoiceField(choices=TenantState.choices)
    state_reason = serializers.CharField(allow_blank=True)
    tier = serializers.CharField(source="tier.name")
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class SignInIn(Input):
    """A token for a person who proves to be one by password."""

    email = Text(max_length=254)
    password = Text(max_length=256, style={"input_type": "password"})
    code = Text(
        max_length=32,
        required=False,
        allow_blank=True,
        default="",
        help_text="The second factor's current code, or a recovery code, where one is set up.",
    )
    name = Text(max_length=120, required=False, default="command line")
    tenant = Text(
        max_length=64,
        required=False,
        help_text="Slug or id; the first of the person's tenants unless given.",
    )
    scopes = serializers.ListField(child=Text(max_length=60), max_length=40, required=False)
    expires_in_days = Whole(min_value=1, max_value=365, required=False, default=90)


class TokenIn(Input):
    """A further token of one's own."""

    name = Text(max_length=120)
    scopes = serializers.ListField(
        child=Text(max_length=60),
        max_length=40,
        required=False,
        help_text=f"What it may do; empty for all that your role may. Known: {', '.join(SCOPES)}.",
    )
    expires_in_days = Whole(min_value=1, max_value=365, required=False, default=90)


class TokenOut(Output):
    """A token without its secret."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    key = serializers.CharField(help_text="The public part, by which the token is recognised.")
    tenant = serializers.UUIDField(source="tenant_id", allow_null=True)
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


class TokenMade(TokenOut):
    """A new token; its text is shown this once."""

    token = serializers.CharField(help_text="The whole token. It cannot be shown again.")


class MembershipOut(Output):
    """A tenant that one is a member of."""

    tenant = TenantOut()
    role = serializers.ChoiceField(choices=Role.choices)


class MeOut(Output):
    """Who the caller is, and as what they act."""

    id = serializers.UUIDField()
    email = serializers.CharField(allow_blank=True, help_text="Empty for a service account.")
    full_name = serializers.CharField(allow_blank=True)
    service_account = Named(allow_null=True, help_text="The program, when it is one that calls.")
    operator = serializers.BooleanField()
    operator_role = serializers.CharField(
        allow_blank=True, help_text="As what an operator acts; empty for anybody else."
    )
    via = serializers.ChoiceField(choices=["user", "token"])
    tenant = Named(allow_null=True)
    role = serializers.CharField(allow_blank=True)
    scopes = serializers.ListField(child=serializers.CharField())
    memberships = MembershipOut(many=True)


class ProjectIn(Input):
    """A new project."""

    name = Text(max_length=120)


class ProjectOut(Output):
    """A tenant's own division."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    tenant = serializers.UUIDField(source="tenant_id")
    created_at = serializers.DateTimeField()


class SshKeyIn(Input):
    """A public key, as in ~/.ssh/id_ed25519.pub."""

    name = Text(max_length=120, required=False, allow_blank=True, default="")
    public_key = Text(max_length=8192)


class SshKeyOut(Output):
    """A kept public key."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    fingerprint = serializers.CharField()
    public_key = serializers.CharField()
    created_at = serializers.DateTimeField()


class EnvelopeOut(Output):
    """What the tenant may hold of one class, and holds."""

    id = serializers.UUIDField()
    tenant = serializers.UUIDField(source="tenant_id")
    resource_class = serializers.CharField(source="resource_class.name")
    nominal_milli = serializers.IntegerField()
    limit_milli = serializers.IntegerField()
    used_milli = serializers.IntegerField()
    free_milli = serializers.IntegerField()
    excess_milli = serializers.IntegerField(help_text="Held above the limit, from before it fell.")
    version = serializers.IntegerField()


class TenantIn(Input):
    """A tenant made by an operator."""

    name = Text(max_length=120)
    tier = Text(max_length=40, required=False)
    owner_email = Text(max_length=254, required=False)


def tenant_named(tenant: Tenant | None) -> dict[str, object] | None:
    """The short form of a tenant."""
    return {"id": tenant.pk, "name": tenant.name} if tenant else None


def service_account_named(account: ServiceAccount | None) -> dict[str, object] | None:
    """The short form of a program's identity."""
    return {"id": account.pk, "name": account.name} if account else None
