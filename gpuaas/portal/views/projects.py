"""What is in a project, how much may it hold, and how does it end?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.amounts import Units
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from placement.selectors import holdings_of
from tenants.models import OnExcess, Project
from tenants.services.deletion import project_delete
from tenants.services.envelopes import project_quota_set
from tenants.snapshots import quota_states


class LimitForm(forms.Form):
    """How much of a class the project may hold."""

    resource_class = forms.ChoiceField(label="Class")
    limit_milli = Units(label="Units at a time", required=False, help_text="Empty: no own limit.")
    on_excess = forms.ChoiceField(
        label="What is held beyond it",
        required=False,
        choices=[("", "refuse the change"), *((e.value, e.value) for e in OnExcess)],
    )
    reason = forms.CharField(label="Why", max_length=500)


class ProjectPage(TenantPage):
    """One project."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Team and projects", self.url("team")), Crumb("Project"))

    def form(self, data: QueryDict | None = None) -> LimitForm:
        """The form with the classes that the tenant has."""
        form = LimitForm(data)
        field: Any = form.fields["resource_class"]
        classes = [state.resource_class for state in quota_states(self.tenant.pk)]
        field.choices = [(name, name) for name in classes]
        return form

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page with an empty form."""
        return self.show(self.chosen_project(slug), self.form())

    def show(
        self,
        project: Project,
        form: LimitForm,
        refusal: errors.ProductError | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with this form, and why the project was not deleted."""
        return self.page(
            "portal/project.html",
            status=status,
            project=project,
            quotas=quota_states(self.tenant.pk, project.pk),
            held=holdings_of(tenant_id=self.tenant.pk, project_id=project.pk),
            form=form,
            refusal=refusal,
            command=f"gpuaas project describe {project.slug}",
            may_limit=self.may("quota:write"),
            may_delete=self.may("projects:write"),
        )


class LimitProject(ProjectPage):
    """Set its own limit."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Set it, or say what is wrong with it."""
        project, form = self.chosen_project(slug), self.form(request.POST)
        if form.is_valid():
            given = dict(form.cleaned_data)
            given["on_excess"] = given["on_excess"] or None
            try:
                project_quota_set(project_id=project.pk, actor=self.actor, **given)
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, "The limit is in force.")
                return redirect(self.url("project", project.slug))
        return self.show(project, form, status=400)


class DeleteProject(ProjectPage):
    """Close it."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Close it, or show what it still holds."""
        project = self.chosen_project(slug)
        try:
            project_delete(project_id=project.pk, actor=self.actor)
        except errors.ProductError as refused:
            return self.show(project, self.form(), refused, refused.status)
        messages.success(request, f"{project.name} is gone. Its record stays.")
        return redirect(self.url("team"))
