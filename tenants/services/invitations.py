"""How does somebody outside come to have a role in a tenant?

A mail with a link that works once: the link's secret is kept as a hash only. What the link
proves is that its reader reads the mail of the invited address, so a new account of that
address needs no further proof, and an existing one has to be of that address.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.scope import platform_scope
from tenants.domain import tokens
from tenants.errors import InvitationExists, InvitationInvalid, NameTaken
from tenants.models import Invitation, Member, Role, Tenant, User
from tenants.services.service_accounts import checked_role
from tenants.services.tenancy import person_named
from tenants.states import TenantState

LIVES = timedelta(days=7)
ENDED = (TenantState.REJECTED, TenantState.DELETING, TenantState.DELETED)
ROLES = tuple(role.value for role in Role)
SUBJECT = "You are invited to a tenant of the GPU platform"
BODY = """{who} invites you to {tenant} as {role}.

Accept here within seven days:

{link}

The link works once, and for {email} only. If you expect no such invitation, do nothing.
"""


def _digest(text: str) -> bytes:
    pepper = hmac.new(settings.SECRET_KEY.encode(), b"gpuaas.invitation.v1", "sha256").digest()
    return tokens.digest(text, pepper)


@transaction.atomic
def invitation_create(
    *, tenant_id: UUID, email: str, role: str, link: Callable[[str], str], actor: Actor
) -> Invitation:
    """Invite an address and send the mail once this is committed.

    ``link`` makes the address of the accepting page from the secret, which is nowhere else
    but in the mail. Raises InvitationExists for whoever is a member, or invited already.
    """
    given = checked_role(role, actor, ROLES)
    wanted = User.objects.normalize_email(email.strip())
    now = clock.db_now()
    taken = InvitationExists(
        errors=(errors.FieldError("/email", "invitation_exists", "invited or a member already"),)
    )
    with platform_scope():
        tenant = Tenant.objects.get(pk=tenant_id)
        if Member.objects.filter(tenant_id=tenant_id, user__email__iexact=wanted).exists():
            raise taken
    Invitation.objects.filter(
        tenant_id=tenant_id,
        email__iexact=wanted,
        accepted_at__isnull=True,
        revoked_at__isnull=True,
        expires_at__lte=now,
    ).update(revoked_at=now)
    secret = secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            invitation = Invitation.objects.create(
                tenant_id=tenant_id,
                email=wanted,
                role=given,
                digest=_digest(secret),
                expires_at=now + LIVES,
                invited_by=actor.as_json(),
            )
    except IntegrityError as twice:
        if not is_taken(twice):
            raise
        raise taken from twice
    events.record(
        kind="tenants.invitation.create",
        subject=invitation,
        actor=actor,
        after={"email": wanted, "role": given},
    )
    body = BODY.format(
        who=actor.name, tenant=tenant.name, role=given, link=link(secret), email=wanted
    )
    transaction.on_commit(lambda: _send(wanted, body))
    return invitation


def _send(email: str, body: str) -> None:
    send_mail(SUBJECT, body, None, [email], fail_silently=True)


@transaction.atomic
def invitation_revoke(*, tenant_id: UUID, invitation_id: UUID, actor: Actor) -> Invitation:
    """Take an invitation back; one that is over stays as it is."""
    rows = Invitation.objects.select_for_update(no_key=True)
    invitation = rows.filter(pk=invitation_id, tenant_id=tenant_id).first()
    if invitation is None:
        raise errors.NotFound
    if invitation.revoked_at is None and invitation.accepted_at is None:
        invitation.revoked_at = clock.db_now()
        invitation.save(update_fields=["revoked_at"])
        events.record(
            kind="tenants.invitation.revoke",
            subject=invitation,
            actor=actor,
            after={"email": invitation.email},
        )
    return invitation


def invitation_of(secret: str) -> Invitation:
    """The invitation that the secret opens, if it is good now. Raises InvitationInvalid.

    Runs before any tenant scope, as the platform: the secret is the permission.
    """
    found = (
        Invitation.objects.select_related("tenant")
        .filter(
            digest=_digest(secret),
            accepted_at__isnull=True,
            revoked_at__isnull=True,
            expires_at__gt=clock.db_now(),
        )
        .exclude(tenant__state__in=ENDED)
        .first()
    )
    if found is None:
        raise InvitationInvalid
    return found


@transaction.atomic
def invitation_accept(*, secret: str, user: User, actor: Actor) -> Member:
    """Make the invited person a member, once. Raises InvitationInvalid.

    Somebody who has a role in the tenant by now keeps it.
    """
    invitation = invitation_of(secret)
    locked = Invitation.objects.select_for_update(no_key=True).get(pk=invitation.pk)
    over = locked.accepted_at is not None or locked.revoked_at is not None
    if over or locked.email.lower() != user.email.lower() or not user.is_active:
        raise InvitationInvalid
    locked.accepted_at = clock.db_now()
    locked.save(update_fields=["accepted_at"])
    member, _ = Member.objects.get_or_create(
        tenant_id=locked.tenant_id, user=user, defaults={"role": locked.role}
    )
    events.record(
        kind="tenants.invitation.accept",
        subject=locked,
        actor=actor,
        after={"email": user.email, "role": member.role},
        facts={"invited_by": locked.invited_by.get("name", "")},
    )
    return member


@transaction.atomic
def invitation_sign_up(
    *, secret: str, full_name: str, password: str, request_id: str = ""
) -> tuple[User, Member]:
    """An account for the invited address, and its role. The password has been validated."""
    invitation = invitation_of(secret)
    person = person_named(full_name)
    try:
        with transaction.atomic():
            user = User.objects.create_user(invitation.email, password, full_name=person)
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            "An account with this address exists already; sign in and open the link again."
        ) from taken
    actor = Actor(kind="user", id=str(user.pk), name=user.email, request_id=request_id)
    return user, invitation_accept(secret=secret, user=user, actor=actor)


def invitation_list(tenant_id: UUID) -> QuerySet[Invitation]:
    """Every invitation of the tenant's, the latest first."""
    return Invitation.objects.filter(tenant_id=tenant_id).order_by("-created_at")


def open_list(tenant_id: UUID) -> QuerySet[Invitation]:
    """Those that can be accepted now."""
    return invitation_list(tenant_id).filter(
        accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=clock.db_now()
    )
