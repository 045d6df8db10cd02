"""How do operators write rules, see what they would do, and switch them on?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from admission.domain.policy import SAMPLE as FACTS
from admission.domain.policy import TestResult
from admission.models import Action, Decision, PolicyRule
from admission.services import policies
from admission.states import POLICY, PolicyState
from gpuaas.console.actions import Offered
from gpuaas.console.acts import Act, ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from gpuaas.ui.frame import Crumb
from gpuaas.ui.marks import Mark
from gpuaas.ui.outcomes import MARKS

SHOWN = 200
SAMPLE = '[{"name": "at three", "facts": {"time": {"hour": 3}}, "forbids": true}]'


class PolicyForm(forms.Form):
    """A rule's next version."""

    name = forms.CharField(label="Name", max_length=60, help_text="Spans the versions of a rule.")
    actions = forms.MultipleChoiceField(
        label="Asked of",
        choices=[(action, action.replace(".", " ").replace("_", " ")) for action in Action.values],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="None ticked: every action.",
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

    def show(
        self,
        form: PolicyForm,
        status: int = 200,
        results: list[TestResult] | None = None,
        worst_us: int = 0,
    ) -> HttpResponse:
        """The page with this form, and how its tests go once that is known."""
        rows = PolicyRule.objects.order_by("name", "-rule_version")
        state, action = (self.request.GET.get(name, "") for name in ("state", "action"))
        if state in PolicyState.values:
            rows = rows.filter(state=state)
        if action in Action.values:
            # A rule that names no action is asked of every one.
            rows = rows.filter(Q(actions=[]) | Q(actions__contains=[action]))
        return self.page(
            "console/policies.html",
            status=status,
            policies=list(rows[:SHOWN]),
            state=state,
            states=[("", "all"), *((s, s.replace("_", "-")) for s in PolicyState.values)],
            action=action,
            actions=Action.values,
            filtered=state in PolicyState.values or action in Action.values,
            form=form,
            facts=json.dumps(FACTS, indent=1),
            results=results,
            worst_us=worst_us,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Run its tests and keep nothing, or keep it as a draft; or say what is wrong with it."""
        form = PolicyForm(request.POST)
        if request.POST.get("do") == "check":
            checked: list[tuple[list[TestResult], int]] = []

            def check(given: dict[str, Any]) -> None:
                checked.append(
                    policies.policy_check(expression=given["expression"], tests=given["tests"])
                )

            if not self.attempt(form, check):
                return self.refused(form)
            results, worst = checked[0]
            return self.show(form, results=results, worst_us=worst)
        kept: list[PolicyRule] = []
        if not self.attempt(
            form, lambda given: kept.append(policies.policy_save(actor=self.actor, **given))
        ):
            return self.refused(form)
        messages.success(request, "Kept as a draft. It decides nothing yet.")
        return redirect("console:policy", kept[0].pk)

    def refused(self, form: PolicyForm) -> HttpResponse:
        """The form again, naming the rule and the fields that are wrong with it."""
        wrong = [str(form.fields[name].label) for name in form.errors if name in form.fields]
        named = form.data.get("name", "").strip()[:60] or "without a name"
        about = f" ({', '.join(wrong)})" if wrong else ""
        form.add_error(
            None, f"The rule {named} was not kept{about}. Rules that are active go on as they are."
        )
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


TOLD = {
    "version": "version",
    "actions": "asked of",
    "worst_us": "slowest of its tests",
    "looked_at": "decisions asked again",
    "refuses": "it would refuse",
    "newly_refused": "that were admitted",
    "refused_before": "refused in any case",
    "errors": "on which it broke",
}


def in_words(version: int, facts: dict[str, Any]) -> dict[str, Any]:
    """What an event of a rule's version noted, by names that a reader knows."""
    worst = facts.get("worst_us")
    actions = [str(one).replace(".", " ").replace("_", " ") for one in facts.get("actions", ())]
    known = {
        **facts,
        "version": version,
        "worst_us": f"{worst} µs" if worst is not None else None,
        "actions": actions,
    }
    return {title: known[name] for name, title in TOLD.items() if known.get(name) is not None}


COMPARED = {
    "expression": "Forbidden when",
    "actions": "Asked of",
    "message": "The tenant is told",
    "unblock": "What would help",
    "tests": "Its own tests",
}


def changes_of(row: PolicyRule, before: PolicyRule | None) -> list[tuple[str, str, str]]:
    """(what, as it was, as it is) for all that a version changed."""
    if before is None:
        return []

    def shown(rule: PolicyRule, name: str) -> str:
        value = getattr(rule, name)
        if name == "tests":
            return json.dumps(value, ensure_ascii=False)
        return ", ".join(value) or "every action" if name == "actions" else str(value)

    return [
        (title, shown(before, name), shown(row, name))
        for name, title in COMPARED.items()
        if shown(before, name) != shown(row, name)
    ]


def outcomes_of(report: dict[str, Any] | None) -> list[tuple[Mark, int, int, int]]:
    """(end, how many before, how many after, the difference) of a dry-run, if it counted them."""
    counted = (report or {}).get("outcomes", {})
    return [
        (mark, *counted[name], counted[name][1] - counted[name][0])
        for name, mark in MARKS.items()
        if name in counted
    ]


def examples_of(report: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The decisions that would have been others, each with the request it was about."""
    found = (report or {}).get("examples", [])
    asked = dict(
        Decision.objects.filter(pk__in=[e["decision"] for e in found]).values_list(
            "pk", "request_id"
        )
    )
    return [
        {
            **example,
            "request": asked.get(UUID(example["decision"])),
            "was": MARKS.get(example.get("outcome", "")),
        }
        for example in found
    ]


class PolicyBoard(ConsolePage):
    """One version of a rule."""

    title = "Policy"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Policies", reverse("console:policies")), Crumb(self.title))

    def row(self, pk: UUID) -> PolicyRule:
        """The version. Raises NotFound."""
        found = PolicyRule.objects.filter(pk=pk).first()
        if found is None:
            raise errors.NotFound
        self.title = f"{found.name} v{found.rule_version}"
        return found

    def show(self, row: PolicyRule, sent: dict[str, forms.Form], status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        offered = [
            offer for edge, offer in _OFFERS.items() if row.state in POLICY.edges[edge].sources
        ]
        if row.state == "dry_run":
            offered.insert(1, _OFFERS["try_out"])
        versions = list(PolicyRule.objects.filter(name=row.name).order_by("-rule_version"))
        before = next((v for v in versions if v.rule_version < row.rule_version), None)
        numbers = {str(version.pk): version.rule_version for version in versions}
        events = list(Event.objects.filter(subject_id__in=list(numbers)).order_by("-id")[:30])
        for event in events:
            event.facts = in_words(numbers[str(event.subject_id)], event.facts)
        return self.page(
            "console/policy.html",
            status=status,
            row=row,
            results=policies.policy_results(row),
            report=row.report,
            outcomes=outcomes_of(row.report),
            examples=examples_of(row.report),
            versions=versions,
            before=before,
            changes=changes_of(row, before),
            events=events,
            acts=[
                Act(
                    offer,
                    reverse("console:policy-act", args=[row.pk, offer.name]),
                    sent.get(offer.name) or form_of(offer.name),
                )
                for offer in offered
            ],
        )


def form_of(action: str, data: Any = None) -> forms.Form:
    """The form of an action: trying out changes nothing, so it asks for no reason."""
    kind = forms.Form if action == "dry-run" else ReasonForm
    return kind(data, auto_id=f"{action}-%s")


class PolicyPage(PolicyBoard):
    """The page itself: one version of a rule."""

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The rule, how its tests go, what the dry-run said, and who changed what."""
        return self.show(self.row(pk), {})


class ActOnPolicy(PolicyBoard):
    """Try out, switch on, retire."""

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it, or say what is wrong beside the field."""
        row = self.row(pk)
        runs: dict[str, tuple[Callable[..., object], str]] = {
            "dry-run": (policies.policy_try_out, "The report is kept; nothing was refused."),
            "activate": (policies.policy_activate, "It decides from now on."),
            "retire": (policies.policy_retire, "It decides nothing any more."),
        }
        if action not in runs:
            raise errors.NotFound
        run, said = runs[action]
        form = form_of(action, request.POST)
        if not self.attempt(form, lambda given: run(rule_id=row.pk, actor=self.actor, **given)):
            self.tell(form)
            return self.show(row, {action: form}, 400)
        messages.success(request, said)
        return redirect("console:policy", pk)
