"""What may be typed into the portal's forms?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.core.exceptions import ValidationError

from tenants.models import Role, User


class SignInForm(AuthenticationForm):
    """Address and password."""

    username = forms.EmailField(
        label="E-mail",
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The same form with our own words."""
        super().__init__(*args, **kwargs)
        self.error_messages = {
            **self.error_messages,
            "invalid_login": "No account has this address and password.",
        }


class EndsTokens(forms.Form):
    """Whoever changes a password may end what else could have been taken."""

    tokens = forms.BooleanField(
        label="End my API tokens too",
        required=False,
        help_text="All of them, in every tenant. Other sessions end in any case.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The same form with this as its last question."""
        super().__init__(*args, **kwargs)
        self.order_fields([*(name for name in self.fields if name != "tokens"), "tokens"])

    @property
    def end_tokens(self) -> bool:
        """Whether it was asked for."""
        return bool(self.cleaned_data.get("tokens"))


class ChangePasswordForm(EndsTokens, PasswordChangeForm):
    """Old and new password."""


class NewPasswordForm(EndsTokens, SetPasswordForm):  # type: ignore[type-arg]  # in the stubs only
    """A new password, from a mailed link."""


class SignUpForm(forms.Form):
    """A new person with a new tenant."""

    tenant_name = forms.CharField(
        label="Organisation", max_length=120, help_text="Names your tenant; you own it."
    )
    full_name = forms.CharField(
        label="Your name",
        max_length=120,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    email = forms.EmailField(
        label="E-mail", widget=forms.EmailInput(attrs={"autocomplete": "username"})
    )
    password = forms.CharField(
        label="Password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters.",
    )

    def clean(self) -> dict[str, Any]:
        """The password must be one that a person cannot guess from the rest."""
        data: dict[str, Any] = super().clean() or {}
        password = data.get("password")
        if password:
            person = User(email=data.get("email", ""), full_name=data.get("full_name", ""))
            try:
                password_validation.validate_password(password, person)
            except ValidationError as weak:
                self.add_error("password", weak)
        return data


class NamedForm(forms.Form):
    """Something that only needs a name."""

    name = forms.CharField(label="Name", max_length=120)


class MemberForm(forms.Form):
    """A person with a role."""

    email = forms.EmailField(label="E-mail of an account")
    role = forms.ChoiceField(
        label="Role", choices=[(r.value, r.value) for r in Role], initial=Role.MEMBER
    )


class TokenForm(forms.Form):
    """A key for programs."""

    name = forms.CharField(label="Name", max_length=120, help_text="What will use it.")
    expires_in_days = forms.TypedChoiceField(
        label="Lives",
        coerce=int,
        choices=[(7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year")],
        initial=30,
    )
    scopes = forms.MultipleChoiceField(
        label="May",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: everything that your role may do.",
    )


class SshKeyForm(forms.Form):
    """A public key."""

    name = forms.CharField(
        label="Name", max_length=120, required=False, help_text="Empty: the key's own comment."
    )
    public_key = forms.CharField(
        label="Public key",
        max_length=8192,
        widget=forms.Textarea(
            attrs={
                "class": "mono",
                "rows": 4,
                "spellcheck": "false",
                "placeholder": "ssh-ed25519 AAAA… you@laptop",
            }
        ),
        help_text="One line, such as the content of ~/.ssh/id_ed25519.pub.",
    )
