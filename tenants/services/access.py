"""Who is calling, and which keys do they hold?"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from gpuaas.kernel import clock, errors, events, prepared
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import constraint_of
from tenants.domain import roles, tokens
from tenants.domain.sshkeys import BadKey, parse_public_key
from tenants.errors import NameTaken, ScopeUnknown, ServiceAccountDisabled, SshKeyInvalid
from tenants.models import ApiToken, Member, ServiceAccount, SshKey, User
from tenants.services.tenancy import checked_name

PEPPER_ID = "v1"
MAX_TOKEN_DAYS = 365
LAST_USED_RESOLUTION = timedelta(minutes=5)
_RESOLUTION = f"{LAST_USED_RESOLUTION.total_seconds():.0f} s"


def _pepper() -> bytes:
    return _pepper_of(settings.SECRET_KEY)


@lru_cache(maxsize=1)
def _pepper_of(secret: str) -> bytes:
    return hmac.new(secret.encode(), b"gpuaas.api-token.v1", "sha256").digest()


def role_in(*, user_id: UUID, tenant_id: UUID) -> str:
    """The member's role, or an empty string."""
    found = Member.objects.filter(user_id=user_id, tenant_id=tenant_id).values_list("role").first()
    return str(found[0]) if found else ""


def user_actor(*, user: User, tenant_id: UUID | None, request_id: str = "") -> Actor:
    """The person as an actor; operators act on the platform's side when no tenant is named."""
    role = role_in(user_id=user.pk, tenant_id=tenant_id) if tenant_id else ""
    return Actor(
        kind="user",
        id=str(user.pk),
        name=user.email,
        tenant_id=tenant_id if role else None,
        operator=user.is_staff,
        operator_role=user.operator_role if user.is_staff else "",
        role=role,
        request_id=request_id,
    )


def person_id_of(actor: Actor) -> str:
    """The person behind an actor, by the account's id; empty when it is nobody's.

    A token acts for whoever holds it, so that two tokens of one person are one person.
    """
    if actor.kind == "user":
        return actor.id
    if actor.kind != "token":
        return ""
    holder = ApiToken.objects.filter(pk=actor.id).values_list("user_id", flat=True).first()
    return str(holder) if holder else ""


@transaction.atomic
def token_create(
    *,
    user: User | None,
    tenant_id: UUID | None,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int,
    actor: Actor,
    project_id: UUID | None = None,
    service_account: ServiceAccount | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its text, which is shown once and never again.

    It belongs to a person or to a service account. A tenant's token can carry tenant
    scopes, an operator's (no tenant) operator scopes, a service account's those of its role.
    """
    known = frozenset(roles.OPERATOR_ACTIONS if tenant_id is None else roles.ACTIONS)
    if service_account is not None:
        if service_account.disabled_at is not None:
            raise ServiceAccountDisabled
        known = frozenset(roles.scopes_of(service_account.role))
    wanted = sorted(set(scopes))
    strange = [scope for scope in wanted if scope not in known]
    if strange:
        raise ScopeUnknown(
            f"Unknown scopes: {', '.join(strange)}.",
            errors=(errors.FieldError("/scopes", "unknown", f"known: {', '.join(sorted(known))}"),),
        )
    if actor.scopes and not (wanted and set(wanted) <= actor.scopes):
        raise errors.PermissionDenied("A token cannot make a token that may do more than itself.")
    if not 1 <= expires_in_days <= MAX_TOKEN_DAYS:
        raise errors.InvalidRequest(
            f"A token lives 1 to {MAX_TOKEN_DAYS} days.",
            errors=(
                errors.FieldError("/expires_in_days", "out_of_range", f"1 to {MAX_TOKEN_DAYS}"),
            ),
        )
    key = "".join(secrets.choice(tokens.ALPHABET) for _ in range(tokens.KEY_LENGTH))
    secret = "".join(secrets.choice(tokens.ALPHABET) for _ in range(tokens.SECRET_LENGTH))
    text = tokens.compose("svc" if service_account else "pat", key, secret)
    token = ApiToken.objects.create(
        tenant_id=tenant_id,
        user=user,
        service_account=service_account,
        project_id=project_id,
        name=checked_name(name),
        key=key,
        digest=tokens.digest(text, _pepper()),
        pepper=PEPPER_ID,
        scopes=wanted,
        expires_at=clock.db_now() + timedelta(days=expires_in_days),
    )
    events.record(
        kind="tenants.apitoken.create",
        subject=token,
        actor=actor,
        after={"key": key, "scopes": wanted, "expires_in_days": expires_in_days},
    )
    return token, text


@transaction.atomic
def token_revoke(*, token_id: UUID, actor: Actor) -> None:
    """End a token at once; repeating it changes nothing."""
    token = ApiToken.objects.select_for_update(no_key=True, of=("self",)).filter(pk=token_id)
    row = token.first()
    if row is None:
        raise errors.NotFound
    if row.revoked_at is None:
        row.revoked_at = clock.db_now()
        row.save(update_fields=["revoked_at"])
        events.record(kind="tenants.apitoken.revoke", subject=row, actor=actor)


@transaction.atomic
def password_recorded(*, user: User, end_tokens: bool, actor: Actor) -> int:
    """Tell of a new password, and end the person's tokens where asked; how many ended."""
    ended = 0
    if end_tokens:
        mine = ApiToken.objects.filter(user=user, revoked_at__isnull=True)
        ended = mine.update(revoked_at=clock.db_now())
    events.record(
        kind="tenants.user.password_set",
        subject=user,
        actor=actor,
        facts={"tokens_ended": ended},
    )
    return ended


def token_authenticate(text: str, *, request_id: str = "") -> Actor | None:
    """The actor behind a token, or None. Runs before any tenant scope, as the platform.

    One prepared statement: every request of a program comes through here.
    """
    parsed = tokens.parse(text)
    if parsed is None:
        return None
    found = prepared.rows(_TOKEN, (_RESOLUTION, clock.stand_in(), parsed.key))
    if not found:
        return None
    row = _Token(*found[0])
    if not hmac.compare_digest(bytes(row.digest), tokens.digest(text, _pepper())):
        return None
    holder = _holder_of(row)
    if holder is None:
        return None
    if row.used_at is not None:
        ApiToken.objects.filter(pk=row.id).update(last_used_at=row.used_at)
    name, role, operator, operator_role = holder
    return Actor(
        kind="token",
        id=str(row.id),
        name=f"{name} ({row.name})",
        tenant_id=row.tenant_id,
        operator=operator,
        operator_role=operator_role,
        role=role,
        scopes=frozenset(row.scopes),
        request_id=request_id,
    )


_TOKEN = """
SELECT token.id, token.tenant_id, token.name, token.digest, token.scopes,
       CASE WHEN token.last_used_at + %s::interval < asked.now IS NOT FALSE THEN asked.now END,
       account.id, account.name, account.role, account.tenant_id, account.disabled_at,
       person.email, person.is_active, person.is_staff, person.operator_role, member.role
  FROM (SELECT coalesce(%s::timestamptz, clock_timestamp()) AS now) asked
  JOIN tenants_apitoken token
    ON token.key = %s AND token.revoked_at IS NULL AND token.expires_at > asked.now
  LEFT JOIN tenants_serviceaccount account ON account.id = token.service_account_id
  LEFT JOIN tenants_user person ON person.id = token.user_id
  LEFT JOIN tenants_member member
    ON member.user_id = token.user_id AND member.tenant_id = token.tenant_id
"""


class _Token(NamedTuple):
    """A token that is good as far as it goes, beside whoever holds it."""

    id: UUID
    tenant_id: UUID | None
    name: str
    digest: bytes
    scopes: list[str]
    used_at: datetime | None
    """When it is to be said to have been used; None while what is said is not old."""
    account_id: UUID | None
    account_name: str
    account_role: str
    account_tenant_id: UUID | None
    account_disabled_at: datetime | None
    email: str | None
    active: bool
    staff: bool
    operator_role: str
    role: str | None


def _holder_of(row: _Token) -> tuple[str, str, bool, str] | None:
    """Name, role, whether an operator and as what; None when the holder may not act."""
    if row.account_id is not None:
        if row.account_disabled_at is not None or row.account_tenant_id != row.tenant_id:
            return None
        return row.account_name, row.account_role, False, ""
    if row.email is None or not row.active:
        return None
    if row.tenant_id and not row.role:
        return None
    operator = row.staff and row.tenant_id is None
    return row.email, row.role or "", operator, row.operator_role if operator else ""


@transaction.atomic
def ssh_key_add(
    *, tenant_id: UUID, user_id: UUID, name: str, public_key: str, actor: Actor
) -> SshKey:
    """Keep a public key under a name: the one given, or the key's comment, or its kind."""
    try:
        key = parse_public_key(public_key)
    except BadKey as bad:
        raise SshKeyInvalid(
            f"The key is refused: {bad}.",
            errors=(errors.FieldError("/public_key", "ssh_key_invalid", str(bad)),),
        ) from bad
    called = checked_name(name or key.comment or key.kind)
    kept = SshKey(
        tenant_id=tenant_id,
        user_id=user_id,
        name=called,
        public_key=key.line,
        fingerprint=key.fingerprint,
    )
    row = _kept(kept)
    if row is None and not name:
        # Nobody gave this name: it is not for the caller to find another.
        piece = re.sub(r"[^A-Za-z0-9]", "", key.fingerprint.rpartition(":")[2])[:8]
        kept.name = checked_name(f"{called[:100]} {piece}")
        row = _kept(kept)
    if row is None:
        raise NameTaken(
            f"The tenant has another key called {kept.name}.",
            errors=(errors.FieldError("/name", "taken", "another key has this name"),),
        )
    events.record(
        kind="tenants.sshkey.add",
        subject=row,
        actor=actor,
        after={"fingerprint": key.fingerprint, "name": row.name},
    )
    return row


def _kept(row: SshKey) -> SshKey | None:
    """The row once it is written; None where another key has its name.

    The table decides, so that two of a moment are as two in a row. Raises NameTaken for a key
    that the tenant has.
    """
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as taken:
        if constraint_of(taken) not in ("one_ssh_key_of_a_name", "ssh_key_once_per_tenant"):
            raise
        same = SshKey.objects.filter(tenant_id=row.tenant_id, fingerprint=row.fingerprint)
        if not same.exists():
            return None
        raise NameTaken(
            "This key has been added already.",
            errors=(errors.FieldError("/public_key", "taken", "the tenant has this key"),),
        ) from taken
    return row


@transaction.atomic
def ssh_key_delete(*, key_id: UUID, actor: Actor) -> None:
    """Forget a key; what runs keeps it until it is released."""
    row = SshKey.objects.filter(pk=key_id).first()
    if row is None:
        raise errors.NotFound
    events.record(
        kind="tenants.sshkey.delete",
        subject=row,
        actor=actor,
        before={"fingerprint": row.fingerprint, "name": row.name},
    )
    row.delete()
