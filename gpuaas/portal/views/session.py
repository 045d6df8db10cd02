"""Who comes in, and how do they get back in when they forgot how?"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth import login, views
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views import View

from admission.services.tenancies import tenant_signup
from gpuaas.identity import gate
from gpuaas.identity.openid import PROVIDER_ID, provider_name
from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from gpuaas.portal.forms import ChangePasswordForm, NewPasswordForm, SignInForm, SignUpForm
from gpuaas.ui.forms import refuse
from gpuaas.ui.pages import request_id
from tenants.models import User
from tenants.services.access import password_recorded

GRACE = (
    "This is a demo: operators may work without a second factor here. Anywhere else you "
    "would set one up now."
)


def admin_door(request: HttpRequest) -> HttpResponse:
    """The admin's own sign-in page is the portal's. To a tenant's person there is no admin."""
    if request.user.is_authenticated:
        raise Http404
    return redirect(f"{reverse('portal:sign-in')}?{request.META.get('QUERY_STRING', '')}")


class SignIn(views.LoginView):
    """Sign in; the lock against guessing is the authentication backend's."""

    template_name = "portal/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The form; whoever has given their password already goes on to the second step."""
        if gate.pending_person(request) is not None:
            return self.second_step()
        return super().get(request, *args, **kwargs)

    def second_step(self) -> HttpResponse:
        """To the page that asks for a code, and from there to where the person wanted to go."""
        back = urlencode({"next": self.get_success_url()})
        return redirect(f"{reverse('portal:second-factor')}?{back}")

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """With the provider's name, where one is configured."""
        return super().get_context_data(
            open_id=provider_name(), open_id_provider=PROVIDER_ID, **context
        )

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in, and go on to the second step where there is one."""
        answer = super().form_valid(form)
        standing = gate.standing(form.get_user(), self.request.session)
        if standing in {"code_needed", "setup_needed"}:
            return self.second_step()
        if standing == "grace":
            messages.info(self.request, GRACE)
        return answer


class SignOut(views.LogoutView):
    """Sign out (by POST only)."""


class SignUp(View):
    """A new account with a new tenant, which waits for an operator's approval."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The empty form."""
        if request.user.is_authenticated:
            return redirect("portal:front-door")
        return render(request, "portal/sign_up.html", {"form": SignUpForm()})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make both, and sign the person in."""
        form = SignUpForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            actor = Actor(
                kind="user",
                id="sign-up",
                name=given["email"],
                request_id=request_id(request),
            )
            try:
                tenant = tenant_signup(
                    email=given["email"],
                    password=given["password"],
                    full_name=given["full_name"],
                    tenant_name=given["tenant_name"],
                    actor=actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                person = User.objects.get(memberships__tenant=tenant)
                login(request, person, backend="django.contrib.auth.backends.ModelBackend")
                return redirect("portal:home", tenant.slug)
        return render(request, "portal/sign_up.html", {"form": form}, status=400)


class Theme(View):
    """Remember which colours a person wants."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Store the choice and go back to where it was made."""
        chosen = request.POST.get("theme", "")
        if isinstance(request.user, User) and chosen in {"auto", "light", "dark"}:
            request.user.theme = chosen
            request.user.save(update_fields=["theme"])
        return redirect(own_address(request, request.POST.get("next", "")))


def own_address(request: HttpRequest, wanted: str) -> str:
    """An address of this site; anything else leads home."""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    parts = urlsplit(wanted)
    if not safe or parts.netloc or not parts.path.startswith("/"):
        return "/"
    return wanted


def _own(request: HttpRequest, form: Any) -> Actor:
    """The person whose password it is, as the one who acts."""
    return Actor(
        kind="user", id=str(form.user.pk), name=form.user.email, request_id=request_id(request)
    )


class PasswordChange(views.PasswordChangeView):
    """Change one's own password."""

    template_name = "portal/password_form.html"
    form_class = ChangePasswordForm
    success_url = reverse_lazy("portal:front-door")
    title = "Change your password"
    submit = "Change the password"

    def form_valid(self, form: Any) -> HttpResponse:
        """Record it; the other sessions end with the old password, tokens where asked."""
        answer = super().form_valid(form)
        password_recorded(
            user=form.user, end_tokens=form.end_tokens, actor=_own(self.request, form)
        )
        messages.success(self.request, "Your password has been changed. Other sessions have ended.")
        return answer


class ResetAsk(views.PasswordResetView):
    """Ask for a mail with a link; the answer never tells whether the address is known."""

    template_name = "portal/password_form.html"
    email_template_name = "portal/mail_reset.txt"
    subject_template_name = "portal/mail_reset_subject.txt"
    success_url = reverse_lazy("portal:password-reset-sent")
    title = "Reset your password"
    submit = "Send me a link"


class ResetSent(views.PasswordResetDoneView):
    """The mail is on its way, if the address is known."""

    template_name = "portal/password_sent.html"


class ResetSet(views.PasswordResetConfirmView):
    """Set a new password from the mailed link."""

    template_name = "portal/password_form.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("portal:sign-in")
    title = "Set a new password"
    submit = "Set the password"

    def form_valid(self, form: Any) -> HttpResponse:
        """Record it; every session ends with the old password, tokens where asked."""
        answer = super().form_valid(form)
        password_recorded(
            user=form.user, end_tokens=form.end_tokens, actor=_own(self.request, form)
        )
        messages.success(self.request, "Your password has been set. Sign in with it.")
        return answer
