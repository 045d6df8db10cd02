"""What was the tenant told about its allocations, and has somebody read it?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.portal.pages import TenantPage
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.selectors.notices import notice_list
from placement.services.notices import notice_acknowledge

PAGE = 50


class Notices(TenantPage):
    """All notices, newest first; what nobody has read unless all are asked for."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Notices"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them."""
        only = "all" if request.GET.get("only") == "all" else ""
        rows = notice_list(self.tenant.pk, unread=not only)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "portal/notices.html",
            notices=part.items,
            cursor=part.next,
            only=only,
            chips=(("", "to read"), ("all", "all")),
            may_acknowledge=self.may("allocations:write"),
        )


class ReadNotice(TenantPage):
    """Say that a notice was read."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Once; repeating it changes nothing. A foreign one is not found."""
        notice_acknowledge(notice_id=pk, actor=self.actor)
        return redirect(self.url("notices"))
