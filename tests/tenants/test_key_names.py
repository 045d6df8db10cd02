"""Is a name said to be taken only where it is?"""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db import IntegrityError, connection

from tenants.errors import NameTaken
from tenants.models import SshKey
from tenants.services import access
from tests.builders import TenantWorld, a_catalogue, a_tenant

pytestmark = pytest.mark.django_db


def add(world: TenantWorld, name: str, line: str = "") -> SshKey:
    """A key; without a line one that nobody has."""
    public = Ed25519PrivateKey.generate().public_key()
    return access.ssh_key_add(
        tenant_id=world.tenant.pk,
        user_id=world.owner.pk,
        name=name,
        public_key=line or public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        actor=world.actor,
    )


def test_a_taken_name_and_a_known_key_are_told_apart() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    first = add(acme, "laptop")
    for name, line, pointer in (
        ("laptop", "", "/name"),
        ("other", first.public_key, "/public_key"),
        ("laptop", first.public_key, "/public_key"),
    ):
        with pytest.raises(NameTaken) as refused:
            add(acme, name, line)
        assert [fault.pointer for fault in refused.value.errors] == [pointer]


def test_another_rule_that_is_broken_is_not_taken_for_a_taken_name() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE tenants_sshkey ADD CONSTRAINT of_tomorrow CHECK (name <> 'later')"
        )
    with pytest.raises(IntegrityError, match="of_tomorrow"):
        add(acme, "later")
    assert not SshKey.objects.exists()
