"""Is a row that is there already told from any other rule of the database that was broken?"""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from gpuaas.kernel.constraints import constraint_of, is_taken
from placement.models import Pool
from tests.builders import a_catalogue, a_host

pytestmark = pytest.mark.django_db


def test_a_taken_name_and_a_broken_rule_are_told_apart() -> None:
    a_catalogue()
    node = a_host().node
    with pytest.raises(IntegrityError) as twice, transaction.atomic():
        Pool.objects.create(name=Pool.objects.get().name)
    assert is_taken(twice.value)
    node.free_mask = -1
    with pytest.raises(IntegrityError) as broken, transaction.atomic():
        node.save()
    assert (is_taken(broken.value), constraint_of(broken.value)) == (False, "slots_fit_the_mask")
    assert not is_taken(IntegrityError("of no database"))
