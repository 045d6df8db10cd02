"""Who operates the platform, what may they do, and how does that change?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.ui.frame import Crumb
from tenants.domain.roles import OPERATOR_ACTIONS, OPERATOR_RANK
from tenants.models import User
from tenants.services.operators import operator_list, operator_role_set

ROLES = sorted(OPERATOR_RANK, key=OPERATOR_RANK.__getitem__, reverse=True)


class RoleForm(ReasonForm):
    """Another role, with the reason."""

    role = forms.ChoiceField(label="Role", choices=[(role, role) for role in ROLES])


@dataclass(frozen=True, slots=True)
class Row:
    """One operator with the form beside them."""

    person: User
    form: forms.Form


class OperatorBoard(ConsolePage):
    """The platform's operators, beside what each role carries."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Operators"),)

    def show(self, sent: dict[UUID, forms.Form], status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        rows = [
            Row(
                person,
                sent.get(person.pk)
                or RoleForm(initial={"role": person.operator_role}, auto_id=f"role-{person.pk}-%s"),
            )
            for person in operator_list()
        ]
        return self.page(
            "console/operators.html",
            status=status,
            rows=rows,
            roles=ROLES,
            actions=[
                (action, [role in carriers for role in ROLES])
                for action, carriers in OPERATOR_ACTIONS.items()
            ],
            may_write=self.may(self.write_action),
        )


class Operators(OperatorBoard):
    """The page itself."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Everybody, those who came first first."""
        return self.show({})


class ActOnOperator(OperatorBoard):
    """Another role for one of them."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Do it, or say beside the operator why not."""
        form = RoleForm(request.POST, auto_id=f"role-{pk}-%s")
        if not self.attempt(
            form, lambda given: operator_role_set(user_id=pk, actor=self.actor, **given)
        ):
            self.tell(form)
            return self.show({pk: form}, 400)
        messages.success(request, "The role is set, from the next request on.")
        return redirect("console:operators")
