"""Who is invited, which programs act here, and which operators looked in?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.kernel import clock, errors
from gpuaas.kernel.scope import platform_scope
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.forms import faults_of, refuse
from tenants.domain.roles import RANK
from tenants.services import break_glass, invitations, service_accounts

SHOWN = 50


def _roles(form: forms.Form, known: tuple[str, ...], role: str) -> None:
    """Offer the roles that a person of this role may give."""
    field: Any = form.fields["role"]
    field.choices = [(r, r) for r in known if RANK[r] <= RANK.get(role, -1)]


class InviteForm(forms.Form):
    """An address and a role."""

    email = forms.EmailField(label="E-mail", max_length=254)
    role = forms.ChoiceField(label="Role", initial="member")


class ProgramForm(forms.Form):
    """A name and a role."""

    name = forms.CharField(label="Name", max_length=120, help_text="What it is for.")
    role = forms.ChoiceField(label="Role", initial="member")


class ProgramTokenForm(forms.Form):
    """A token of a program's."""

    name = forms.CharField(label="Token for", max_length=120)
    expires_in_days = forms.TypedChoiceField(
        label="Lives",
        coerce=int,
        choices=[(7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year")],
        initial=90,
    )


class Access(TenantPage):
    """Invitations, service accounts, and operators' looks."""

    def invite_form(self, data: QueryDict | None = None) -> InviteForm:
        """The form with the roles that this person may give."""
        form = InviteForm(data, prefix="invite")
        _roles(form, invitations.ROLES, self.actor.role)
        return form

    def program_form(self, data: QueryDict | None = None) -> ProgramForm:
        """The same for a program."""
        form = ProgramForm(data, prefix="program")
        _roles(form, service_accounts.ROLES, self.actor.role)
        return form

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with empty forms."""
        return self.show()

    def show(
        self,
        *,
        invite: InviteForm | None = None,
        program: ProgramForm | None = None,
        made: str = "",
        status: int = 200,
    ) -> HttpResponse:
        """The page with these forms, and a new token's text, this once."""
        tenant_id = self.tenant.pk
        with platform_scope():
            windows = list(break_glass.window_list(tenant_id)[:SHOWN])
        sees = self.may("service_accounts:read")
        response = self.page(
            "portal/access.html",
            status=status,
            made=made,
            now=clock.db_now(),
            windows=windows,
            invitations=list(invitations.open_list(tenant_id)[:SHOWN]),
            programs=list(service_accounts.account_list(tenant_id)[:SHOWN]) if sees else [],
            sees_programs=sees,
            may_invite=self.may("members:write"),
            may_programs=self.may("service_accounts:write"),
            invite_form=invite or self.invite_form(),
            program_form=program or self.program_form(),
            token_form=ProgramTokenForm(prefix="token", auto_id=False),
        )
        response["Cache-Control"] = "no-store"
        return response


class Invite(Access):
    """Send an invitation."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Mail it, or say what is wrong with it."""
        form = self.invite_form(request.POST)
        if form.is_valid():
            try:
                invitations.invitation_create(
                    tenant_id=self.tenant.pk,
                    email=form.cleaned_data["email"],
                    role=form.cleaned_data["role"],
                    link=lambda secret: request.build_absolute_uri(
                        reverse("portal:invitation", args=[secret])
                    ),
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"{form.cleaned_data['email']} is invited by mail.")
                return redirect(self.url("access"))
        return self.show(invite=form, status=400)


class Uninvite(TenantPage):
    """Take an invitation back."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The link stops working at once."""
        row = invitations.invitation_revoke(
            tenant_id=self.tenant.pk, invitation_id=pk, actor=self.actor
        )
        messages.success(request, f"The invitation of {row.email} is taken back.")
        return redirect(self.url("access"))


class NewProgram(Access):
    """Make a service account."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it, or say what is wrong with it."""
        form = self.program_form(request.POST)
        if form.is_valid():
            try:
                made = service_accounts.service_account_create(
                    tenant_id=self.tenant.pk,
                    name=form.cleaned_data["name"],
                    role=form.cleaned_data["role"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"{made.name} is there. Give it a token.")
                return redirect(self.url("access"))
        return self.show(program=form, status=400)


class ProgramToken(Access):
    """Make a token for a service account."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Make it and show its text, which is not kept."""
        form = ProgramTokenForm(request.POST, prefix="token")
        if not form.is_valid():
            raise faults_of(form)
        _, text = service_accounts.service_account_token(
            tenant_id=self.tenant.pk,
            account_id=pk,
            name=form.cleaned_data["name"],
            scopes=[],
            expires_in_days=form.cleaned_data["expires_in_days"],
            actor=self.actor,
        )
        return self.show(made=text)


class EndProgram(TenantPage):
    """Disable a service account."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Its tokens stop working at once."""
        row = service_accounts.service_account_disable(
            tenant_id=self.tenant.pk, account_id=pk, reason="by hand", actor=self.actor
        )
        messages.success(request, f"{row.name} is disabled; its tokens stopped working at once.")
        return redirect(self.url("access"))
