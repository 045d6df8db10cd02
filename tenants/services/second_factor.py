"""Does somebody hold the second factor that they set up?

Time-based codes (RFC 6238) and single-use recovery codes, kept by allauth's models. Tries
are counted in the row that a try locks, so that guessing is bounded over every process and
session; a code that was taken is not taken again.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret, validate_totp_code
from django.conf import settings
from django.db import transaction

from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor
from tenants.errors import (
    SecondFactorExists,
    SecondFactorLocked,
    SecondFactorNeeded,
    SecondFactorWrong,
)
from tenants.models import User
from tenants.services.access import person_id_of

RECENT = timedelta(minutes=10)
"""How long a given factor opens what is sensitive."""
TRIES = 5
LOCK = timedelta(minutes=15)
LONGEST_CODE = 20
KEPT_USED = 8


def factor_of(user_id: UUID) -> int | None:
    """The id of the person's factor, or None when none is set up."""
    found = Authenticator.objects.filter(user_id=user_id, type=Authenticator.Type.TOTP)
    pk = found.values_list("pk", flat=True).first()
    return None if pk is None else int(pk)


def given_lately(actor: Actor) -> bool:
    """Whether the person behind an actor gave their factor a short while ago, or has none."""
    holder = person_id_of(actor)
    try:
        person = UUID(holder)
    except ValueError:
        return True
    if factor_of(person) is None:
        return True
    return actor.factor_at is not None and clock.db_now() - actor.factor_at <= RECENT


def given_lately_or_refuse(actor: Actor) -> None:
    """For what is sensitive. Raises SecondFactorNeeded."""
    if not given_lately(actor):
        raise SecondFactorNeeded


def factor_required(user: User) -> bool:
    """Whether this person must set one up: operators, except in the demo."""
    return user.is_staff and not settings.OPERATOR_FACTOR_GRACE


def secret_new() -> str:
    """A fresh secret, in base 32."""
    return str(generate_totp_secret())


def secret_shown(user: User, secret: str) -> tuple[str, str]:
    """The secret as an address for an authenticator app, and as a QR code in a data URI."""
    adapter = get_adapter()
    address = str(adapter.build_totp_url(user, secret))
    picture = base64.b64encode(adapter.build_totp_svg(address).encode()).decode()
    return address, f"data:image/svg+xml;base64,{picture}"


def _clean(code: str) -> str:
    kept = "".join(code.split()).replace("-", "")
    return kept if kept.isascii() and kept.isdigit() and len(kept) <= LONGEST_CODE else ""


@transaction.atomic
def factor_add(*, user: User, secret: str, code: str, actor: Actor) -> list[str]:
    """Set up time-based codes, proven by one, and return the recovery codes, shown once."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if factor_of(user.pk) is not None:
        raise SecondFactorExists
    given = _clean(code)
    if not given or not validate_totp_code(secret, given):
        raise SecondFactorWrong
    factor = TOTP.activate(user, secret).instance
    factor.data["used"] = [_digest(given)]
    factor.save(update_fields=["data"])
    codes = RecoveryCodes.activate(user).get_unused_codes()
    events.record(kind="tenants.user.second_factor_add", subject=user, actor=actor)
    return [str(one) for one in codes]


def _digest(code: str) -> str:
    return hashlib.sha256(f"{settings.SECRET_KEY}:{code}".encode()).hexdigest()[:32]


def factor_verify(*, user: User, code: str, actor: Actor) -> None:
    """Take a code of either kind, once.

    Raises SecondFactorNeeded (none set up), SecondFactorWrong, or SecondFactorLocked after
    too many wrong ones. The count is committed before it raises.
    """
    with transaction.atomic():
        outcome = _tried(user, _clean(code), actor)
    if outcome is not None:
        raise outcome


def _tried(
    user: User, code: str, actor: Actor
) -> SecondFactorNeeded | SecondFactorWrong | SecondFactorLocked | None:
    rows = Authenticator.objects.select_for_update().filter(user_id=user.pk)
    factor = rows.filter(type=Authenticator.Type.TOTP).first()
    if factor is None:
        return SecondFactorNeeded("No second factor is set up.")
    now = clock.db_now()
    data: dict[str, Any] = factor.data
    failures, last = int(data.get("failures", 0)), data.get("failed_at", "")
    if failures and now - datetime.fromisoformat(last) > LOCK:
        failures = 0
    if failures >= TRIES:
        return SecondFactorLocked()
    kind = _kind_of(factor, code)
    if kind:
        data.update(failures=0, used=[*data.get("used", []), _digest(code)][-KEPT_USED:])
        factor.last_used_at = now
        factor.save(update_fields=["data", "last_used_at"])
        if kind == "recovery":
            events.record(kind="tenants.user.recovery_code_use", subject=user, actor=actor)
        return None
    data.update(failures=failures + 1, failed_at=now.isoformat())
    factor.save(update_fields=["data"])
    if failures + 1 == TRIES:
        events.record(kind="tenants.user.second_factor_lock", subject=user, actor=actor)
    return SecondFactorWrong()


def _kind_of(factor: Authenticator, code: str) -> str:
    """Which of the person's codes this is, if any; a recovery code is spent by asking."""
    if not code or _digest(code) in factor.data.get("used", []):
        return ""
    if factor.wrap().validate_code(code):
        return "totp"
    codes = Authenticator.objects.filter(
        user_id=factor.user_id, type=Authenticator.Type.RECOVERY_CODES
    ).first()
    return "recovery" if codes is not None and codes.wrap().validate_code(code) else ""


def recovery_left(user_id: UUID) -> int:
    """How many recovery codes have not been used."""
    codes = Authenticator.objects.filter(
        user_id=user_id, type=Authenticator.Type.RECOVERY_CODES
    ).first()
    return len(codes.wrap().get_unused_codes()) if codes is not None else 0


@transaction.atomic
def recovery_renew(*, user: User, actor: Actor) -> list[str]:
    """New recovery codes; those from before stop working."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if factor_of(user.pk) is None:
        raise SecondFactorNeeded("No second factor is set up.")
    Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.RECOVERY_CODES).delete()
    codes = RecoveryCodes.activate(user).get_unused_codes()
    events.record(kind="tenants.user.recovery_codes_renew", subject=user, actor=actor)
    return [str(one) for one in codes]


@transaction.atomic
def factor_remove(*, user: User, reason: str, actor: Actor) -> None:
    """Forget the person's factor and recovery codes: they sign in with one step, or set up anew."""
    gone, _ = Authenticator.objects.filter(user_id=user.pk).delete()
    if gone:
        events.record(
            kind="tenants.user.second_factor_remove", subject=user, actor=actor, reason=reason
        )
