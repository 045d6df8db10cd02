"""How does a person set up, give and renew their second factor?

These pages are for whoever has signed in, and for whoever has not come further than their
password: nobody else's session opens them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views import View

from gpuaas.identity import gate
from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from gpuaas.portal.views.session import own_address
from gpuaas.ui.forms import refuse
from gpuaas.ui.pages import request_id
from tenants.errors import SecondFactorNeeded
from tenants.models import User
from tenants.services import second_factor
from tenants.services.access import user_actor

SECRET = "second_factor_secret"


class CodeForm(forms.Form):
    """A code of the app, or a recovery code."""

    code = forms.CharField(
        label="Code",
        max_length=24,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "one-time-code",
                "inputmode": "numeric",
                "autofocus": True,
                "class": "mono",
            }
        ),
    )


class SetUpForm(CodeForm):
    """The first code, and the password of a session that has been open for a while."""

    password = forms.CharField(
        label="Your password",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, *args: Any, ask_password: bool, **kwargs: Any) -> None:
        """Ask for the password too, or leave it out."""
        super().__init__(*args, **kwargs)
        if not ask_password:
            del self.fields["password"]


def acting(request: HttpRequest, person: User) -> Actor:
    """A person as the actor on their own account."""
    actor = user_actor(user=person, tenant_id=None, request_id=request_id(request))
    return replace(actor, factor_at=gate.factor_at(request))


class FactorView(View):
    """What these pages share: who it is about, whether or not they have come all the way."""

    person: User
    pending: bool

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Find the person, or lead to the sign-in."""
        pending = gate.pending_person(request)
        person = pending or request.user
        if not isinstance(person, User):
            back = urlencode({"next": request.get_full_path()})
            return redirect(f"{reverse('portal:sign-in')}?{back}")
        self.person, self.pending = person, pending is not None
        answer = super().dispatch(request, *args, **kwargs)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @property
    def actor(self) -> Actor:
        """The person, who acts on their own account."""
        return acting(self.request, self.person)

    def onward(self) -> str:
        """Where the person wanted to go."""
        given = self.request.POST.get("next") or self.request.GET.get("next") or "/"
        return own_address(self.request, given)

    def show(self, template: str, status: int = 200, **context: Any) -> HttpResponse:
        """The page."""
        context |= {
            "person": self.person,
            "pending": self.pending,
            "next": self.onward(),
            "required": second_factor.factor_required(self.person),
            "grace": gate.standing(self.person, self.request.session) == "grace",
        }
        return render(self.request, template, context, status=status)


class Verify(FactorView):
    """Give a code: the second step of signing in, or anew before something sensitive."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form, or the set-up where there is nothing to give."""
        if second_factor.factor_of(self.person.pk) is None:
            return redirect("portal:second-factor-setup")
        return self.show("portal/second_factor.html", form=CodeForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Take the code, once."""
        form = CodeForm(request.POST)
        if form.is_valid():
            try:
                second_factor.factor_verify(
                    user=self.person, code=form.cleaned_data["code"], actor=self.actor
                )
            except SecondFactorNeeded:
                return redirect("portal:second-factor-setup")
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                gate.mark_passed(request, self.person)
                if second_factor.recovery_left(self.person.pk) <= 2:
                    messages.warning(request, "Few recovery codes are left: renew them soon.")
                return redirect(self.onward())
        return self.show("portal/second_factor.html", status=400, form=form)


class SetUp(FactorView):
    """Set up an authenticator app."""

    def secret(self) -> str:
        """The secret that is being set up; it stays in the session until a code proves it."""
        session = self.request.session
        if SECRET not in session:
            session[SECRET] = second_factor.secret_new()
        return str(session[SECRET])

    def form(self, *data: Any) -> SetUpForm:
        """The form; a session that is open already asks for the password again."""
        ask = not self.pending and self.person.has_usable_password()
        return SetUpForm(*data, ask_password=ask)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The picture to scan."""
        if second_factor.factor_of(self.person.pk) is not None:
            return redirect("portal:second-factor" if self.pending else "portal:security")
        return self.page(self.form())

    def page(self, form: SetUpForm, status: int = 200) -> HttpResponse:
        """The picture and the form."""
        secret = self.secret()
        address, picture = second_factor.secret_shown(self.person, secret)
        grouped = " ".join(secret[i : i + 4] for i in range(0, len(secret), 4))
        return self.show(
            "portal/second_factor_setup.html",
            status=status,
            form=form,
            address=address,
            picture=picture,
            secret=grouped,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Check the first code and show the recovery codes, this once."""
        form = self.form(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            if "password" in form.fields and not self.person.check_password(given["password"]):
                form.add_error("password", "This is not your password.")
                return self.page(form, 400)
            try:
                codes = second_factor.factor_add(
                    user=self.person, secret=self.secret(), code=given["code"], actor=self.actor
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                del request.session[SECRET]
                gate.mark_passed(request, self.person)
                self.pending = False
                return self.show("portal/second_factor_codes.html", codes=codes)
        return self.page(form, 400)


class Security(FactorView):
    """What protects the account, and what can be changed about it."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page; whoever is half-way in goes on first."""
        if self.pending:
            return redirect("portal:second-factor")
        return self.show(
            "portal/security.html",
            factor=second_factor.factor_of(self.person.pk) is not None,
            left=second_factor.recovery_left(self.person.pk),
        )


class Fresh(FactorView):
    """For what needs a code that was given a short while ago."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Ask for a code first unless there was one lately."""
        if isinstance(request.user, User) and not second_factor.given_lately(
            acting(request, request.user)
        ):
            back = urlencode({"next": reverse("portal:security")})
            return redirect(f"{reverse('portal:second-factor')}?{back}")
        return super().dispatch(request, *args, **kwargs)


class RenewCodes(Fresh):
    """New recovery codes."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make them and show them, this once."""
        if self.pending:
            return redirect("portal:second-factor")
        try:
            codes = second_factor.recovery_renew(user=self.person, actor=self.actor)
        except SecondFactorNeeded:
            return redirect("portal:second-factor-setup")
        return self.show("portal/second_factor_codes.html", codes=codes)


class Remove(Fresh):
    """Forget the second factor."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Remove it; whoever must have one is led to set up another."""
        if self.pending:
            return redirect("portal:second-factor")
        second_factor.factor_remove(user=self.person, reason="by its holder", actor=self.actor)
        request.session.pop(gate.MARK, None)
        request.session.cycle_key()
        messages.success(request, "The second factor is removed.")
        return redirect("portal:security")
