"""How does a service's refusal appear beside the field that it names?"""

from __future__ import annotations

from django import forms

from gpuaas.kernel.errors import ProductError


def refuse(form: forms.Form, error: ProductError) -> None:
    """Put a product's refusal beside the fields that it names, and say the way out."""
    named = False
    for fault in error.errors:
        field = fault.pointer.strip("/").split("/")[0]
        if field in form.fields:
            form.add_error(field, fault.detail)
            named = True
    if not named:
        form.add_error(None, f"{error.detail.rstrip('.')}. {error.unblock} ({error.code})")
