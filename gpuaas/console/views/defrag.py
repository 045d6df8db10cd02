"""Which moves would make room, where are they allowed, and what was moved?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from gpuaas.console.acts import Again, ReasonForm, SeenForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors, workflow
from gpuaas.kernel.models import WorkflowRun
from gpuaas.ui.amounts import Whole
from gpuaas.ui.frame import Crumb
from placement.defrag_errors import DefragPlanStale
from placement.models import Defragmentation, Pool
from placement.services import defrag
from placement.services.defrag import MOST_LOST_MILLI, MOST_MOVES
from tenants.selectors import sku_list

SHOWN = 20

MOST_SLOTS = 62
"""The slots of a node are bits of one number."""


class WantForm(forms.Form):
    """The room that is wanted, with a smaller budget than the pool's if need be."""

    sku = forms.ChoiceField(label="SKU")
    slots = Whole(
        label="Slots",
        required=False,
        min_value=0,
        max_value=MOST_SLOTS,
        help_text="Empty: the largest size sold.",
    )
    moves = Whole(
        label="Moves, at most",
        required=False,
        min_value=0,
        max_value=MOST_MOVES,
        help_text="Empty: as the pool allows.",
    )
    lost_milli = Whole(
        label="Lost work, at most (thousandths of a GPU-hour)",
        required=False,
        min_value=0,
        max_value=MOST_LOST_MILLI,
    )

    request = forms.UUIDField(
        label="For the waiting request",
        required=False,
        help_text="Its id: room for just that, and it gets it. Empty: for whoever is first.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = sku_list().filter(shape__in=("gpu_slice", "baremetal")).values_list("name", "title")
        choice = self.fields["sku"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [(name, title) for name, title in names]


class RunForm(SeenForm, WantForm):
    """The same, with why, and the plan that was looked at."""


class PolicyForm(ReasonForm):
    """Whether and how far a pool's movable work may be moved."""

    enabled = forms.BooleanField(label="Moves are allowed", required=False)
    moves = Whole(label="Moves in one run, at most", min_value=1)
    lost_milli = Whole(
        label="Lost work in one run, at most (thousandths of a GPU-hour)", min_value=0
    )
    from_hour = Whole(label="From hour of the day (UTC)", min_value=0, max_value=23)
    until_hour = Whole(
        label="Until hour", min_value=0, max_value=23, help_text="Equal to from: the whole day."
    )


class Defrag(ConsolePage):
    """The plan for what is wanted, before and after, and the runs so far."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Make room"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form, and the plan for what it says."""
        form = WantForm(request.GET if request.GET.get("sku") else None)
        plan = None
        status = 200
        if form.is_bound:
            found: list[defrag.DefragPlan] = []
            if self.attempt(form, lambda given: found.append(defrag.defrag_plan(**given))):
                plan = found[0]
            else:
                status = 400
        return self.show(form, plan, self.run_form(plan, request.GET.dict()), status)

    def run_form(self, plan: defrag.DefragPlan | None, given: dict[str, Any]) -> RunForm | None:
        """The button's form, carrying exactly what was looked at."""
        if plan is None or not plan.steps:
            return None
        form = RunForm(initial={**given, "seen": plan.digest}, auto_id="run-%s")
        for name in WantForm.base_fields:
            form.fields[name].widget = forms.HiddenInput()
        return form

    def show(
        self,
        form: forms.Form,
        plan: defrag.DefragPlan | None,
        run: RunForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page."""
        rows = list(
            Defragmentation.objects.select_related("pool", "host").order_by("-created_at")[:SHOWN]
        )
        runs = WorkflowRun.objects.in_bulk([row.run_id for row in rows])
        return self.page(
            "console/defrag.html",
            status=status,
            form=form,
            plan=plan,
            run=run,
            may_run=self.may(self.write_action),
            policies=[defrag.policy_of(pool) for pool in Pool.objects.order_by("name")],
            rows=[(row, workflow.progress(runs[row.run_id])) for row in rows],
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Run exactly the plan that was looked at."""
        form = RunForm(request.POST, auto_id="run-%s")
        try:
            done = self.attempt(form, lambda given: self.begin(given))
        except Again:
            messages.warning(request, "The plan has changed. Look at it again.")
            wanted = {name: request.POST.get(name, "") for name in WantForm.base_fields}
            return redirect(f"{reverse('console:defrag')}?{urlencode(wanted)}")
        if not done:
            return self.show(form, None, None, 400)
        messages.success(request, "The moves have begun.")
        return redirect("console:defrag")

    def begin(self, given: dict[str, Any]) -> None:
        """Raises what the service raises, and Again."""
        try:
            defrag.defrag_run(actor=self.actor, **given)
        except DefragPlanStale as stale:
            raise Again from stale


class DefragPolicyPage(ConsolePage):
    """One pool's policy."""

    pool_name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Make room", reverse("console:defrag")), Crumb(self.pool_name))

    def get(self, request: HttpRequest, pool: str) -> HttpResponse:
        """The form with what is in force."""
        row = defrag.policy_of(self.pool(pool))
        names = ("enabled", "moves", "lost_milli", "from_hour", "until_hour")
        return self.show(PolicyForm(initial={name: getattr(row, name) for name in names}))

    def pool(self, name: str) -> Pool:
        """The pool. Raises NotFound."""
        found = Pool.objects.filter(name=name).first()
        if found is None:
            raise errors.NotFound
        self.pool_name = found.name
        return found

    def show(self, form: PolicyForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        return self.page(
            "console/defrag_policy.html",
            status=status,
            form=form,
            pool=self.pool_name,
            may_set=self.may(self.write_action),
        )

    def post(self, request: HttpRequest, pool: str) -> HttpResponse:
        """Set it with the reason given."""
        self.pool(pool)
        form = PolicyForm(request.POST)
        if not self.attempt(
            form, lambda given: defrag.policy_set(pool=pool, actor=self.actor, **given)
        ):
            return self.show(form, 400)
        messages.success(request, f"The policy of {pool} is set.")
        return redirect("console:defrag")
