"""What uses one pool, family or SKU, and how is it renamed and ended?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm, SureForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.frame import Crumb
from placement.models import NodeFamily, Pool
from placement.selectors.uses import Uses, family_uses, pool_uses, sku_uses
from placement.services import stock_ends
from tenants.models import Sku
from tenants.services import catalogue


class TitleForm(ReasonForm):
    """What people read; the name stays."""

    title = forms.CharField(
        label="Title", max_length=120, required=False, help_text="Empty: the name."
    )


class FamilyTitleForm(TitleForm):
    """What people read of a kind of hosts."""

    gpu_model = forms.CharField(label="GPU", max_length=80, required=False)


class SkuTitleForm(TitleForm):
    """What people read of a product."""

    description = forms.CharField(
        label="Description", max_length=2000, required=False, widget=forms.Textarea({"rows": 3})
    )


@dataclass(frozen=True, slots=True)
class Noun:
    """One kind of thing: its rows, its words, and what can be done with one."""

    called: str
    rows: type[Pool] | type[NodeFamily] | type[Sku]
    uses: Callable[[Any], Uses]
    title_form: type[TitleForm]
    rename: Callable[..., object]
    retire: Callable[..., object]
    remove: Callable[..., object]
    retired: str
    """What no longer happens then."""


def _sku_rename(*, name: str, **given: Any) -> object:
    return catalogue.sku_rename(sku=name, **given)


def _sku_retire(*, name: str, **given: Any) -> object:
    return catalogue.sku_retire(sku=name, **given)


NOUNS: dict[str, Noun] = {
    "pool": Noun(
        "Pool",
        Pool,
        pool_uses,
        TitleForm,
        stock_ends.pool_rename,
        stock_ends.pool_retire,
        stock_ends.pool_remove,
        "No host comes into it and no SKU is made of it any more. What was stays known.",
    ),
    "family": Noun(
        "Family of hosts",
        NodeFamily,
        family_uses,
        FamilyTitleForm,
        stock_ends.family_rename,
        stock_ends.family_retire,
        stock_ends.family_remove,
        "No host is approved as it and no SKU is made of it any more. What was stays known.",
    ),
    "sku": Noun(
        "SKU",
        Sku,
        sku_uses,
        SkuTitleForm,
        _sku_rename,
        _sku_retire,
        stock_ends.sku_remove,
        "Nothing is sold of it any more. What runs goes on, and what waits may still be placed.",
    ),
}
SAID = {
    "rename": "is renamed.",
    "retire": "is retired; what was stays known.",
    "remove": "is removed.",
}


class StockItemBoard(ConsolePage):
    """The page of one thing."""

    @cached_property
    def noun(self) -> Noun:
        """Its kind. Raises NotFound."""
        found = NOUNS.get(self.kwargs["noun"])
        if found is None:
            raise errors.NotFound
        return found

    @cached_property
    def row(self) -> Any:
        """The thing. Raises NotFound."""
        name = self.kwargs["name"]
        found = None if "\0" in name else self.noun.rows.objects.filter(name=name).first()
        if found is None:
            raise errors.NotFound
        return found

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Products and stock", reverse("console:stock")), Crumb(self.kwargs["name"]))

    def form_of(self, act: str, data: Any = None) -> ReasonForm:
        """The form of one act, bound to what was sent if something was."""
        ids = f"{act}-%s"
        if act == "rename":
            given = {
                name: getattr(self.row, name)
                for name in self.noun.title_form.base_fields
                if name != "reason"
            }
            return self.noun.title_form(data, initial=given, auto_id=ids)
        if act == "remove":
            return SureForm(data, name=self.row.name, auto_id=ids)
        return ReasonForm(data, auto_id=ids)

    def show(
        self, *, sent: tuple[str, ReasonForm] | None = None, status: int = 200
    ) -> HttpResponse:
        """The page, with the form that was sent and refused."""
        uses = self.noun.uses(self.row)
        return self.page(
            "console/stock_item.html",
            status=status,
            noun=self.kwargs["noun"],
            command=f"gpuaas {self.kwargs['noun']} uses {self.row.name}",
            kind=self.noun,
            row=self.row,
            sku=self.row if isinstance(self.row, Sku) else None,
            uses=[(what, uses.now.get(what, 0), count) for what, count in uses.ever.items()],
            ended=uses.ended,
            may_retire=uses.may_retire,
            may_remove=uses.may_remove,
            sold=uses.sold,
            opened=sent[0] if sent else "",
            may_write=self.may(self.write_action),
            **{
                f"{act}_form": sent[1] if sent and sent[0] == act else self.form_of(act)
                for act in SAID
            },
        )


class StockItem(StockItemBoard):
    """The page itself."""

    def get(self, request: HttpRequest, noun: str, name: str) -> HttpResponse:
        """What uses it, and the forms of what can be done."""
        return self.show()


class ActOnStock(StockItemBoard):
    """A change of one thing."""

    def get(self, request: HttpRequest, noun: str, name: str, act: str) -> HttpResponse:
        """The page: nothing is done by looking."""
        return redirect("console:stock-item", noun, name)

    def post(self, request: HttpRequest, noun: str, name: str, act: str) -> HttpResponse:
        """Do it, or say why not."""
        if act not in SAID:
            raise errors.NotFound
        form = self.form_of(act, request.POST)
        do: Callable[..., object] = getattr(self.noun, act)

        def done(given: dict[str, Any]) -> object:
            given.pop("confirm", None)
            return do(name=self.row.name, actor=self.actor, **given)

        if not self.attempt(form, done):
            self.tell(form)
            return self.show(sent=(act, form), status=400)
        messages.success(request, f"{name} {SAID[act]}")
        if act == "remove":
            return redirect("console:stock")
        return redirect("console:stock-item", noun, name)
