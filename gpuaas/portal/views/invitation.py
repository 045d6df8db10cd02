"""How does an invited person come in?

The link in the mail is the permission. The page keeps it out of caches and referrers, and
answers every link that is not good in one way.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import login, password_validation
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters

from gpuaas.identity.adapters import BACKEND
from gpuaas.kernel import errors
from gpuaas.portal.views.second_factor import acting
from gpuaas.ui.forms import refuse
from gpuaas.ui.pages import request_id
from tenants.errors import InvitationInvalid
from tenants.models import Invitation, User
from tenants.services import invitations


class AccountForm(forms.Form):
    """A new account of the invited address."""

    full_name = forms.CharField(
        label="Your name",
        max_length=120,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    password = forms.CharField(
        label="Password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters.",
    )

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        """For this address."""
        super().__init__(*args, **kwargs)
        self.email = email

    def clean(self) -> dict[str, Any]:
        """The password must be one that a person cannot guess from the rest."""
        data: dict[str, Any] = super().clean() or {}
        if data.get("password"):
            person = User(email=self.email, full_name=data.get("full_name", ""))
            try:
                password_validation.validate_password(data["password"], person)
            except ValidationError as weak:
                self.add_error("password", weak)
        return data


@method_decorator(sensitive_post_parameters("password"), name="dispatch")
class Accept(View):
    """The page that the mailed link opens."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, and keep the link to this browser's address bar."""
        try:
            response = super().dispatch(request, *args, **kwargs)
        except InvitationInvalid as gone:
            response = render(request, "portal/invitation.html", {"gone": gone}, status=404)
        response.headers["Cache-Control"] = "no-store"
        # With less than this a browser sends no origin either, and the form could not be trusted.
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    def get(self, request: HttpRequest, secret: str) -> HttpResponse:
        """Who invites to what; and how to accept it."""
        found = invitations.invitation_of(secret)
        return self.show(found, AccountForm(email=found.email))

    def show(self, found: Invitation, form: AccountForm, status: int = 200) -> HttpResponse:
        """The page, for a stranger, for somebody with an account, or for somebody signed in."""
        person = self.request.user if self.request.user.is_authenticated else None
        known = User.objects.filter(email__iexact=found.email).exists()
        context = {
            "invitation": found,
            "form": form,
            "known": known,
            "person": person,
            "theirs": person is not None and person.email.lower() == found.email.lower(),
            "address": self.request.path,
        }
        return render(self.request, "portal/invitation.html", context, status=status)

    def post(self, request: HttpRequest, secret: str) -> HttpResponse:
        """Accept: as who one is, or with a new account."""
        found = invitations.invitation_of(secret)
        if isinstance(request.user, User):
            member = invitations.invitation_accept(
                secret=secret, user=request.user, actor=acting(request, request.user)
            )
            messages.success(request, f"You are {member.role} here now.")
            return redirect("portal:home", found.tenant.slug)
        form = AccountForm(request.POST, email=found.email)
        if form.is_valid():
            try:
                user, _ = invitations.invitation_sign_up(
                    secret=secret,
                    full_name=form.cleaned_data["full_name"],
                    password=form.cleaned_data["password"],
                    request_id=request_id(request),
                )
            except InvitationInvalid:
                raise
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                login(request, user, backend=BACKEND)
                return redirect("portal:home", found.tenant.slug)
        return self.show(found, form, 400)
