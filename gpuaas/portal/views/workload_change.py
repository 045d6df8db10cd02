"""What would a change of a workload do, and do exactly that?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from admission.models import Workload
from gpuaas.kernel import errors, ids
from gpuaas.portal.once import address_of
from gpuaas.portal.planned import LivePage, bar_of
from gpuaas.portal.typed import word
from gpuaas.portal.workload_ways import SHARED_BY, WAYS, Way
from gpuaas.ui.forms import faults_of, refuse
from gpuaas.ui.frame import Crumb
from placement.services.workload_changes import ChangePlan, change_plan
from tenants.selectors import dataset_list


class ChangeWorkload(LivePage):
    """The form of one change, its plan, and the button that sends exactly the plan."""

    form_template = "portal/workload_change.html"
    plan_template = "portal/workload_change_plan.html"
    workload: Workload
    way: Way

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        here = (Crumb("Workloads", self.url("workloads")),)
        if not hasattr(self, "workload"):
            return here
        mine = Crumb(self.workload.name, self.url("workload", self.workload.pk))
        return (*here, mine, Crumb(self.way.title))

    def find(self, pk: UUID, verb: str) -> None:
        """The workload and the way to change it. Raises NotFound."""
        row = Workload.objects.select_related("sku", "project").filter(pk=pk).first()
        way = WAYS.get(verb)
        if row is None or way is None:
            raise errors.NotFound
        self.workload, self.way = row, way

    def form(self, data: QueryDict | None = None) -> forms.Form:
        """The form, filled with how it is now or with what was typed."""
        form = self.way.form(data, initial=self.way.now(self.workload))
        if "datasets" in form.fields:
            known = dataset_list(self.tenant.pk).values_list("name", flat=True)
            field: Any = form.fields["datasets"]
            field.choices = [(name, name) for name in known]
            if not field.choices:
                del form.fields["datasets"]
        return form

    def get(self, request: HttpRequest, pk: UUID, verb: str) -> HttpResponse:
        """The form, with the plan once something was typed."""
        self.find(pk, verb)
        typed = any(name in request.GET for name in self.way.form.base_fields)
        response = self.answer(self.template(), self.form(request.GET if typed else None))
        patch_vary_headers(response, ["HX-Request"])
        return response

    def post(self, request: HttpRequest, pk: UUID, verb: str) -> HttpResponse:
        """Do exactly the plan, once for each time that the form was shown."""
        self.find(pk, verb)
        form = self.form(request.POST)
        if not form.is_valid():
            return self.answer(self.form_template, form, status=400)
        given = self.way.given(form.cleaned_data)
        once = word(request.POST, "once", 64)
        try:
            return redirect(
                address_of(
                    self, once, repr(given).encode(), lambda: self.led(lambda: self.act(given))
                )
            )
        except errors.ProductError as refused:
            return self.answer(self.form_template, form, refused, refused.status)

    def act(self, given: dict[str, Any]) -> str:
        """Decide and make the change: the workload's address. Raises the refusal."""
        ticket = self.way.act(workload_id=self.workload.pk, actor=self.actor, **given)
        if ticket.request.state == "queued":
            messages.info(self.request, "It waits: the decision below says for what.")
        else:
            messages.success(self.request, "Admitted. The decision is below.")
        return self.url("workload", self.workload.pk)

    def answer(
        self,
        template: str,
        form: forms.Form,
        error: errors.ProductError | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The form, the plan beside it, and what is wrong with either."""
        found: ChangePlan | None = None
        given: dict[str, Any] = {}
        if form.is_bound and not form.is_valid():
            error = faults_of(form)
        elif form.is_bound and error is None:
            given = self.way.given(form.cleaned_data)
            try:
                change = self.way.plan(workload_id=self.workload.pk, actor=self.actor, **given)
                found = change_plan(change, actor=self.actor)
            except errors.ProductError as refused:
                error = refused
        if error is not None and error.errors and form.is_bound and form.is_valid():
            refuse(form, error)
        sent = form.data if isinstance(form.data, QueryDict) else QueryDict()
        return self.page(
            template,
            status=status,
            row=self.workload,
            way=self.way,
            form=form,
            error=error,
            found=found,
            plan=found.plan if found else None,
            meanwhile=found.hour_before_micro + found.plan.price_hour_micro if found else 0,
            lines=lines_of(found) if found else [],
            bar=bar_of(found.plan) if found else None,
            command=self.way.command_of(self.workload, given) if found else "",
            fields=[(name, text) for name in form.fields for text in sent.getlist(name) if text],
            once=ids.new_id(),
            may_change=self.may(self.write_action),
        )


def lines_of(found: ChangePlan) -> list[tuple[str, str, str]]:
    """What is wanted, by title: before the change and after it."""
    titles = {
        "replicas": "Replicas",
        "batch_size": "Batch size",
        "mode": "Its GPUs",
        "band": "Band",
        "zones": "Zones",
        "datasets": "Near",
    }

    def told(name: str, value: Any) -> str:
        if name == "mode":
            return SHARED_BY.get(value, str(value))
        if isinstance(value, list):
            return ", ".join(value) or ("any" if name == "zones" else "none")
        return "none" if value is None else str(value)

    return [
        (titles[name], told(name, before), told(name, found.after[name]))
        for name, before in found.before.items()
    ]
