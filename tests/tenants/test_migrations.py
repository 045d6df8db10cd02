"""What becomes of rows that a new constraint would not let in?"""

from __future__ import annotations

import pytest
from django.core.management import call_command

from tenants.models import SshKey
from tests.builders import a_catalogue, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_later_keys_of_one_name_are_renamed_by_their_fingerprints_and_the_first_is_not() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    rows = [
        (acme, "laptop", "SHA256:AAAAAAAA/first"),
        (acme, "laptop", "SHA256:BB+BBBBBBsecond"),
        (acme, "laptop", "SHA256:CCCCCCCCthird"),
        (acme, "laptop CCCCCCCC", "SHA256:DDDDDDDD"),
        (globex, "laptop", "SHA256:AAAAAAAA/first"),
        (acme, "x" * 120, "SHA256:EEEEEEEE1"),
        (acme, "x" * 120, "SHA256:FFFFFFFF1"),
    ]
    try:
        call_command("migrate", "tenants", "0011", verbosity=0)
        for world, name, fingerprint in rows:
            SshKey.objects.create(
                tenant=world.tenant,
                user=world.owner,
                name=name,
                public_key=fingerprint,
                fingerprint=fingerprint,
            )
    finally:
        call_command("migrate", verbosity=0)
    names = dict(SshKey.objects.values_list("fingerprint", "name").order_by("-tenant__slug"))
    assert names == {
        "SHA256:AAAAAAAA/first": "laptop",
        "SHA256:BB+BBBBBBsecond": "laptop BBBBBBBB",
        "SHA256:CCCCCCCCthird": "laptop CCCCCCCCthird",
        "SHA256:DDDDDDDD": "laptop CCCCCCCC",
        "SHA256:EEEEEEEE1": "x" * 120,
        "SHA256:FFFFFFFF1": "x" * 111 + " FFFFFFFF",
    }
    assert SshKey.objects.filter(name="laptop").count() == 2, "another tenant's name is its own"
