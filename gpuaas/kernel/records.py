"""How do operators read records and act on them in the admin?

Rows are read-only there. What changes them is an action with a page of its own: it says
what will happen, asks for a reason, and calls the service that the API calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget

from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError

Service = Callable[[Any, str, Actor], object]


class ReasonForm(forms.Form):
    """Why it is done."""

    reason = forms.CharField(
        max_length=500,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text="Kept in the record of events with your name.",
    )


def operator_of(request: HttpRequest) -> Actor:
    """The signed-in operator as the one who acts."""
    user: Any = request.user
    return Actor(
        kind="user",
        id=str(user.pk),
        name=str(user),
        operator=True,
        operator_role=user.operator_role,
        request_id=str(getattr(request, "request_id", "")),
        factor_at=getattr(request, "factor_at", None),
    )


class RecordAdmin(ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    """Rows of the domain: to be read, searched and filtered; never typed over or removed."""

    list_per_page = 50
    show_full_result_count = False
    secret_fields: ClassVar[Sequence[str]] = ()
    """Columns that are not even shown."""

    def get_exclude(self, request: HttpRequest, obj: models.Model | None = None) -> Sequence[str]:
        """Secrets stay out of the page."""
        return list(self.secret_fields)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is made here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nothing is typed over here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nothing is removed here."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Operators read everything."""
        user: Any = request.user
        return bool(user.is_authenticated and user.may_operate("operator:read"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Operators see every app."""
        return self.has_view_permission(request)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Only what the row's state allows is offered; the services decide again."""
        offered = super().get_actions_detail(request, object_id)
        row = self.get_object(request, str(object_id))
        may: Any = request.user
        return [
            one
            for one in offered
            if _offered(one.method, row) and may.may_operate(one.method.needs)
        ]


def _offered(method: Any, row: models.Model | None) -> bool:
    states: frozenset[str] = getattr(method, "states", frozenset())
    return row is not None and (not states or getattr(row, "state", "") in states)


def reasoned(
    name: str,
    title: str,
    consequence: str,
    service: Service,
    *,
    needs: str,
    states: Sequence[str] = (),
) -> Any:
    """An admin action that says its consequence and asks for a reason before it runs.

    ``needs`` is the action that the operator's role has to carry. ``states`` are the states
    in which it is offered; empty means always.
    """

    def method(self: RecordAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        person: Any = request.user
        if not person.may_operate(needs):
            raise DjangoPermissionDenied
        form = ReasonForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                service(row, form.cleaned_data["reason"], operator_of(request))
            except ProductError as refused:
                form.add_error(None, f"{refused.detail} ({refused.code})")
            else:
                messages.success(request, f"{title}: done for {row}.")
                return redirect(_page_of(self, row))
        context = {
            **self.admin_site.each_context(request),
            "title": f"{title}: {row}",
            "heading": title,
            "row": row,
            "consequence": consequence,
            "form": form,
            "back": _page_of(self, row),
            "opts": self.model._meta,
        }
        return render(request, "kernel/reason.html", context, status=400 if form.errors else 200)

    method.__name__ = name
    made = action(description=title, url_path=name.replace("_", "-"), permissions=["view"])(method)
    made.states, made.needs = frozenset(states), needs
    return made


def _page_of(admin: RecordAdmin, row: models.Model) -> str:
    meta = row._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[row.pk])
