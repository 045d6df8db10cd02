"""How does a test play an authenticator app?  By the standard's own algorithm (RFC 6238)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import time

from allauth.mfa.models import Authenticator
from django.test import Client

from gpuaas.identity import gate
from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from tenants.errors import SecondFactorWrong
from tenants.models import User
from tenants.services import second_factor

STEP_S = 30


def code_of(secret: str, *, steps: int = 0) -> str:
    """The six digits of the current half-minute, or of one ``steps`` away."""
    counter = int(time.time()) // STEP_S + steps
    mac = hmac.new(base64.b32decode(secret), struct.pack(">Q", counter), hashlib.sha1).digest()
    start = mac[-1] & 15
    value = int.from_bytes(mac[start : start + 4], "big") & 0x7FFF_FFFF
    return f"{value % 1_000_000:06d}"


def enrol(user: User) -> tuple[str, list[str]]:
    """Set up a second factor; its secret and recovery codes. The code before now is spent."""
    secret = second_factor.secret_new()
    actor = Actor(kind="user", id=str(user.pk), name=user.email)

    def add() -> list[str]:
        code = code_of(secret, steps=-1)
        return second_factor.factor_add(user=user, secret=secret, code=code, actor=actor)

    try:
        return secret, add()
    except SecondFactorWrong:  # the half-minute was over between the code and its check
        return secret, add()


def pass_factor(client: Client, user: User, *, age_s: float = 0) -> None:
    """Give a signed-in browser the second factor, as of ``age_s`` ago."""
    if not Authenticator.objects.filter(user=user).exists():
        enrol(user)
    session = client.session
    session[gate.MARK] = {
        "factor": second_factor.factor_of(user.pk),
        "at": clock.now().timestamp() - age_s,
    }
    session.save()
