"""How does the first administrator come to be?"""

from __future__ import annotations

import secrets

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import SYSTEM
from tenants.errors import NameTaken
from tenants.models import User

PASSWORD_BYTES = 15


@transaction.atomic
def operator_create(*, email: str, full_name: str = "", password: str = "") -> tuple[User, str]:
    """An account with every operator right, and its password (made here unless given)."""
    if "@" not in email:
        raise errors.InvalidRequest(
            f"{email!r} is not a mail address.",
            errors=(errors.FieldError("/email", "invalid", "a mail address is needed"),),
        )
    chosen = password or secrets.token_urlsafe(PASSWORD_BYTES)
    try:
        with transaction.atomic():
            user = User.objects.create_superuser(email, chosen, full_name=full_name)
    except IntegrityError as taken:
        raise NameTaken("An account with this address exists already.") from taken
    events.record(
        kind="tenants.operator.create", subject=user, actor=SYSTEM, after={"email": email}
    )
    return user, chosen
