"""Where does the tenant's data lie, and where did it lie before?"""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import names
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from tenants.models import DataSet
from tenants.selectors import dataset_list
from tenants.services.datasets import dataset_declare, dataset_retire

PAGE = 50
PLACES = ("zones", "racks", "nodes", "storage")


class PlacesForm(forms.Form):
    """Places of each kind, by name."""

    zones = forms.CharField(
        label="Zones", required=False, max_length=4000, help_text="Parted by commas."
    )
    racks = forms.CharField(label="Racks", required=False, max_length=4000)
    nodes = forms.CharField(label="Nodes", required=False, max_length=4000)
    storage = forms.CharField(label="Storage", required=False, max_length=4000)
    required = forms.BooleanField(
        label="What names it runs only there",
        required=False,
        initial=True,
        help_text="Otherwise there if possible.",
    )

    def declare(self, page: TenantPage, name: str) -> DataSet:
        """The next version of the name. Raises what the service raises."""
        given = self.cleaned_data
        return dataset_declare(
            tenant_id=page.tenant.pk,
            name=name,
            required=given["required"],
            actor=page.actor,
            **{place: names(given[place]) for place in PLACES},
        )


class DataSetForm(PlacesForm):
    """The same with a name."""

    name = forms.CharField(label="Name", max_length=120)
    field_order = ("name", *PLACES, "required")


class DataSets(TenantPage):
    """The data sets in force, and a form for another."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        return self.show(DataSetForm())

    def show(self, form: DataSetForm, status: int = 200) -> HttpResponse:
        """The list with this form."""
        return self.page(
            "portal/datasets.html",
            status=status,
            datasets=list(dataset_list(self.tenant.pk)),
            form=form,
            may_write=self.may(self.write_action),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Declare one, or say what is wrong with it."""
        form = DataSetForm(request.POST)
        if form.is_valid():
            try:
                made = form.declare(self, form.cleaned_data["name"])
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"{made.name} lies there, as version {made.version}.")
                return redirect(self.url("dataset", made.name))
        return self.show(form, 400)


class DataSetPage(TenantPage):
    """One data set: where it lies, its versions, the next one."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Data sets", self.url("datasets")), Crumb("Data set"))

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The page, its form filled with where it lies."""
        row = dataset_list(self.tenant.pk).filter(name=name).first()
        filled = {place: ", ".join(getattr(row, place)) for place in PLACES} if row else {}
        form = PlacesForm(initial={**filled, "required": row.required if row else True})
        return self.show(name, row, form)

    def show(
        self, name: str, row: DataSet | None, form: PlacesForm, status: int = 200
    ) -> HttpResponse:
        """The page with this form."""
        versions = DataSet.objects.filter(tenant=self.tenant, name=name)
        part = part_of(versions, self.request.GET.get("cursor", ""), PAGE)
        if not part.items and row is None:
            raise errors.NotFound
        return self.page(
            "portal/dataset.html",
            status=status,
            name=name,
            row=row,
            versions=part.items,
            cursor=part.next,
            next_version=row.version + 1 if row else 0,
            form=form,
            command=f"gpuaas dataset describe {name}",
            may_write=self.may(self.write_action),
            may_run=self.may("allocations:write"),
        )

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Say where it lies from now on."""
        row = dataset_list(self.tenant.pk).filter(name=name).first()
        if row is None:
            raise errors.NotFound
        form = PlacesForm(request.POST)
        if form.is_valid():
            try:
                made = form.declare(self, name)
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"Version {made.version} holds from now on.")
                return redirect(self.url("dataset", name))
        return self.show(name, row, form, 400)


class RetireDataSet(TenantPage):
    """No request may name it any more."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Do it; its versions stay."""
        dataset_retire(tenant_id=self.tenant.pk, name=name, actor=self.actor)
        messages.success(request, f"{name} is retired.")
        return redirect(self.url("datasets"))
