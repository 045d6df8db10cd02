"""How do operators write rules, see what they would do, and switch them on?"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from admission.models import Action, PolicyRule
from admission.services import policies
from admission.states import POLICY
from gpuaas.console.actions import Offered
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb

SHOWN = 200
SAMPLE = '[{"name": "at three", "facts": {"time": {"hour": 3}}, "forbids": true}]'


class PolicyForm(forms.Form):
    """A rule's next version."""

    name = forms.CharField(label="Name", max_length=60, help_text="Spans the versions of a rule.")
    actions = forms.MultipleChoiceField(
        label="Asked of",
        choices=Action.choices,
        required=False,
        help_text="None chosen: every action.",
    )
    expression = forms.CharField(
        label="Forbidden when (CEL)",
        max_length=2000,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 4, "spellcheck": "false"}),
        help_text="True forbids. Known: action, tenant, request, quota, time.",
    )
    message = forms.CharField(label="What the tenant is told", max_length=300)
    unblock = forms.CharField(label="What would help", max_length=300, required=False)
    tests = forms.CharField(
        label="Its own tests (JSON)",
        max_length=20_000,
        initial=SAMPLE,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 5, "spellcheck": "false"}),
        help_text="Facts over the sample, and whether the rule forbids them.",
    )

    def clean_tests(self) -> list[dict[str, Any]]:
        """The parsed tests."""
        try:
            found = json.loads(self.cleaned_data["tests"])
        except ValueError as wrong:
            raise ValidationError(f"This is not JSON: {wrong}") from wrong
        if not isinstance(found, list) or not all(isinstance(test, dict) for test in found):
            raise ValidationError("A list of objects with name, facts and forbids.")
        return found


class Policies(ConsolePage):
    """Every version of every rule, and the way to a new one."""

    write_action = "policies:write"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Policies"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list with an empty form, or with the rule that a new version begins from."""
        form = PolicyForm()
        source = PolicyRule.objects.filter(name=request.GET.get("from", "")).order_by(
            "-rule_version"
        )
        if earlier := source.first():
            fields = ("name", "actions", "expression", "message", "unblock")
            begin = {name: getattr(earlier, name) for name in fields}
            form = PolicyForm(initial=begin | {"tests": json.dumps(earlier.tests, indent=1)})
        return self.show(form)

    def show(self, form: PolicyForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        rows = PolicyRule.objects.order_by("name", "-rule_version")
        return self.page(
            "console/policies.html", status=status, policies=list(rows[:SHOWN]), form=form
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep it as a draft, or say what is wrong with it."""
        form = PolicyForm(request.POST)
        if form.is_valid():
            try:
                row = policies.policy_save(actor=self.actor, **form.cleaned_data)
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, "Kept as a draft. It decides nothing yet.")
                return redirect("console:policy", row.pk)
        return self.show(form, 400)


_OFFERS = {
    "try_out": Offered(
        "dry-run",
        "Try it out on recorded decisions",
        "The last 500 decisions are asked again. Nothing is refused; the report is kept here.",
        main=True,
    ),
    "activate": Offered(
        "activate",
        "Switch it on",
        "Every decision that begins after this is asked. The version before it is retired.",
        main=True,
    ),
    "retire": Offered("retire", "Retire", "It decides nothing any more.", risk=True),
}


class PolicyPage(ConsolePage):
    """One version of a rule."""

    title = "Policy"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Policies", reverse("console:policies")), Crumb(self.title))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The rule, how its tests go, and what the dry-run said."""
        row = PolicyRule.objects.filter(pk=pk).first()
        if row is None:
            raise errors.NotFound
        self.title = f"{row.name} v{row.rule_version}"
        offered = [
            offer for edge, offer in _OFFERS.items() if row.state in POLICY.edges[edge].sources
        ]
        if row.state == "dry_run":
            offered.insert(1, _OFFERS["try_out"])
        return self.page(
            "console/policy.html",
            row=row,
            results=policies.policy_results(row),
            report=row.report,
            actions=offered,
            base=reverse("console:policy", args=[row.pk]),
        )


class ActOnPolicy(ConsolePage):
    """Try out, switch on, retire."""

    write_action = "policies:write"

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it."""
        reason = request.POST.get("reason", "").strip()[:500]
        if action == "dry-run":
            policies.policy_try_out(rule_id=pk, actor=self.actor)
        elif not reason:
            raise errors.InvalidRequest(
                "This needs a reason.",
                errors=(errors.FieldError("/reason", "required", "say why"),),
            )
        elif action == "activate":
            policies.policy_activate(rule_id=pk, reason=reason, actor=self.actor)
        elif action == "retire":
            policies.policy_retire(rule_id=pk, reason=reason, actor=self.actor)
        else:
            raise errors.NotFound
        messages.success(request, f"Done: {action}.")
        return redirect("console:policy", pk)
