"""How does a service's refusal appear beside the field that it names?"""

from __future__ import annotations

from django import forms
from django.http import HttpRequest

from gpuaas.kernel.errors import FieldError, InvalidRequest, ProductError

LONGEST_REASON = 500


def refuse(form: forms.Form, error: ProductError) -> None:
    """Put a product's refusal beside the fields that it names; where one of them is not seen, or
    none is named, say it as a whole with the way out."""
    beside = aside = False
    for fault in error.errors:
        field = fault.pointer.strip("/").split("/")[0]
        if field not in form.fields:
            continue
        if form.fields[field].widget.is_hidden:
            # Nothing stands beside what nobody sees.
            aside = True
        else:
            form.add_error(field, fault.detail)
            beside = True
    if aside or not beside:
        form.add_error(None, f"{error.detail.rstrip('.')}. {error.unblock} ({error.code})")


def text_in(request: HttpRequest, name: str = "reason", most: int = LONGEST_REASON) -> str:
    """One text of a form that was sent. Raises InvalidRequest naming it where it is too long."""
    text = request.POST.get(name, "").strip()
    if len(text) > most:
        detail = f"at most {most} characters, not {len(text)}"
        raise InvalidRequest(
            f"{name}: {detail}.", errors=(FieldError(f"/{name}", "too_long", detail),)
        )
    return text


def faults_of(form: forms.Form) -> InvalidRequest:
    """What is wrong with a form as one refusal that names the fields."""
    faults = tuple(
        FieldError(f"/{name}", "wrong", str(fault))
        for name, all_of in form.errors.items()
        for fault in all_of
    )
    return InvalidRequest("Some fields cannot be understood.", errors=faults)
