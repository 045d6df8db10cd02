"""What is laid in and sold: SKUs, kinds of hosts, pools and images, with a form for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.amounts import Money, Units, Whole
from gpuaas.ui.forms import text_in
from gpuaas.ui.frame import Crumb
from placement.models import Image
from placement.selectors import family_list, pool_list
from placement.services import stock
from tenants.domain.names import SHELF_NAME
from tenants.models import Shape
from tenants.selectors import sku_list
from tenants.services import catalogue

ENDED = 50
MACHINES = (("gpu_slice", "machines on slots"), ("baremetal", "whole hosts"))


def _name(help_text: str = "") -> forms.RegexField:
    said = "Lower-case letters, digits, and inner dots and hyphens. For good."
    return forms.RegexField(
        rf"\A{SHELF_NAME.pattern}\Z",
        label="Name",
        max_length=60,
        help_text=f"{help_text} {said}".strip(),
        error_messages={"invalid": said},
    )


def _title() -> forms.CharField:
    return forms.CharField(
        label="Title", max_length=120, required=False, help_text="For people; the name without it."
    )


class PoolForm(ReasonForm):
    """A set of hosts with one queue."""

    name = _name()
    title = _title()


class FamilyForm(ReasonForm):
    """A kind of hosts."""

    name = _name("Such as h100-8.")
    title = _title()
    slots = Whole(
        label="Slots", min_value=1, max_value=stock.MOST_SLOTS, help_text="Of each of its hosts."
    )
    gpu_model = forms.CharField(label="GPU", max_length=80, required=False)


class ImageForm(ReasonForm):
    """What a lease starts from."""

    name = _name("As hosts know it.")
    title = _title()
    shapes = forms.MultipleChoiceField(
        label="Starts", choices=MACHINES, widget=forms.CheckboxSelectMultiple
    )
    username = forms.CharField(
        label="Account",
        max_length=32,
        initial="ubuntu",
        help_text="The one that SSH keys are put into.",
    )
    reference = forms.CharField(
        label="From where", max_length=200, required=False, help_text="For people."
    )


class SkuForm(forms.Form):
    """A draft product with its price."""

    name = _name()
    title = forms.CharField(label="Title", max_length=120)
    shape = forms.ChoiceField(label="Shape", choices=Shape.choices)
    family = forms.ChoiceField(label="Of hosts of")
    pool = forms.ChoiceField(label="Pool")
    resource_class = forms.CharField(
        label="Counts as", max_length=60, help_text="The class of envelopes; made if it is new."
    )
    units_milli = Units(
        label="Units", least=1, initial="1", help_text="Of that class, for one slot, part or node."
    )
    slots_min = Whole(label="Slots at least", min_value=1, max_value=62, initial=1)
    slots_max = Whole(
        label="Slots at most", min_value=1, max_value=62, initial=1, help_text="Of a slice."
    )
    hour_micro = Money(label="Price an hour", help_text="Of one slot, part or node.")
    part_profile = forms.CharField(
        label="MIG profile", max_length=24, required=False, help_text="Of the shape mig alone."
    )
    part_milli = Whole(
        label="Thousandths of a GPU",
        min_value=1,
        max_value=1000,
        required=False,
        help_text="Of the shape gpu_share alone.",
    )
    part_memory_mib = Whole(
        label="MiB of its memory",
        min_value=1,
        max_value=catalogue.MOST_MIB,
        required=False,
        help_text="Of the shape gpu_share alone.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field, rows in (("family", family_list()), ("pool", pool_list())):
            names = list(rows.filter(retired_at__isnull=True).values_list("name", flat=True))
            choices: Any = self.fields[field]
            choices.choices = [(name, name) for name in names]


@dataclass(frozen=True, slots=True)
class Noun:
    """What can be made on the page: its form, how it is made, and what is said then."""

    form: type[forms.Form]
    make: Callable[..., object]
    said: str


NOUNS: dict[str, Noun] = {
    "sku": Noun(SkuForm, catalogue.sku_create, "is drafted; publish it to sell it."),
    "family": Noun(FamilyForm, stock.family_create, "is a family that hosts can be approved as."),
    "pool": Noun(PoolForm, stock.pool_create, "is a pool."),
    "image": Noun(ImageForm, stock.image_create, "is offered."),
}


class StockBoard(ConsolePage):
    """All that is there, and the forms."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Products and stock"),)

    def show(
        self,
        *,
        sent: tuple[str, forms.Form] | None = None,
        retire: tuple[str, ReasonForm] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the form that was sent and refused."""
        forms_of = {
            f"{noun}_form": sent[1]
            if sent and sent[0] == noun
            else kind.form(auto_id=f"id_{noun}_%s")
            for noun, kind in NOUNS.items()
        }
        images = [
            (
                row,
                retire[1]
                if retire and retire[0] == row.name
                else ReasonForm(auto_id=f"retire-{row.pk}-%s"),
            )
            for row in Image.objects.filter(retired_at__isnull=True).order_by("name")
        ]
        ended = Image.objects.filter(retired_at__isnull=False).order_by("-retired_at", "name")
        return self.page(
            "console/stock.html",
            status=status,
            skus=list(sku_list(drafts=True)),
            families=list(family_list()),
            pools=list(pool_list()),
            images=images,
            ended=list(ended[:ENDED]),
            opened=sent[0] if sent else "",
            may_write=self.may(self.write_action),
            **forms_of,
        )


class Stock(StockBoard):
    """The page itself."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Everything, by name."""
        return self.show()


class MakeStock(StockBoard):
    """Something new."""

    def get(self, request: HttpRequest, noun: str) -> HttpResponse:
        """The page: nothing is made by looking."""
        return redirect("console:stock")

    def post(self, request: HttpRequest, noun: str) -> HttpResponse:
        """Make it, or say beside the field what is wrong."""
        kind = NOUNS.get(noun)
        if kind is None:
            raise errors.NotFound
        form = kind.form(request.POST, auto_id=f"id_{noun}_%s")
        if not self.attempt(form, lambda given: kind.make(actor=self.actor, **given)):
            return self.show(sent=(noun, form), status=400)
        messages.success(request, f"{form.cleaned_data['name']} {kind.said}")
        return redirect("console:stock")


class RetireImage(StockBoard):
    """The end of an image."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """No lease starts from it any more; what runs goes on."""
        name = text_in(request, "name", 60)
        row = Image.objects.filter(name=name, retired_at__isnull=True).first()
        if row is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id=f"retire-{row.pk}-%s")
        if not self.attempt(
            form,
            lambda given: stock.image_retire(name=name, reason=given["reason"], actor=self.actor),
        ):
            self.tell(form)
            return self.show(retire=(name, form), status=400)
        messages.success(request, f"{name} is not offered any more.")
        return redirect("console:stock")
