"""Does a tenant see what it was told, and nobody else's?"""

from __future__ import annotations

import pytest
from django.core import mail

from gpuaas.kernel import outbox
from placement.models import Notice
from placement.services import nodes
from placement.services.notices import notice_mail
from tests.builders import OPERATOR
from tests.portal.conftest import World


@pytest.fixture
def told(world: World) -> World:
    nodes.node_drain(node_id=world.host.node.pk, reason="secret words", actor=OPERATOR)
    return world


def test_a_notice_is_on_home_on_its_allocation_and_on_its_own_page(told: World) -> None:
    browser = told.browser()
    for path in ("", f"allocations/{told.running.pk}/", "notices/"):
        text = browser.get(told.url(path)).content.decode()
        assert "What train-1 runs on takes no new work for now" in text
        assert "foreign-1" not in text
        assert "secret words" not in text
    notice = Notice.objects.get(allocation=told.running)
    browser.send(told.url(f"notices/{notice.pk}/read/"))
    notice.refresh_from_db()
    assert notice.acknowledged_at is not None
    assert "takes no new work" not in browser.get(told.url()).content.decode()
    assert "takes no new work" in browser.get(told.url("notices/?only=all")).content.decode()


def test_a_foreign_notice_is_as_missing_and_a_viewer_only_reads(told: World) -> None:
    foreign = Notice.objects.get(allocation=told.foreign)
    mine = Notice.objects.get(allocation=told.running)
    assert told.browser().send(told.url(f"notices/{foreign.pk}/read/")).status_code == 404
    viewer = told.browser("viewer")
    assert "takes no new work" in viewer.get(told.url("notices/")).content.decode()
    assert viewer.send(told.url(f"notices/{mine.pk}/read/")).status_code == 403
    assert Notice.objects.filter(acknowledged_at__isnull=False).count() == 0


@pytest.mark.django_db(transaction=True)
def test_owners_and_admins_get_each_notice_by_mail_once(told: World) -> None:
    for _ in range(2):
        outbox.sweep()
    notice = Notice.objects.get(allocation=told.running)
    assert notice_mail(notice.pk) == 0
    about = [one for one in mail.outbox if "train-1" in one.subject]
    assert sorted(one.to[0] for one in about) == ["admin@acme.test", "owner@acme.test"]
    assert all("secret words" not in one.body for one in about)
