"""What can go wrong with who, what is sold and how much is theirs?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError


class TenantPending(ProductError):
    """The tenant has not been approved yet."""

    code = "tenant_pending"
    status = 403
    title = "The tenant waits for approval"
    unblock = "An operator approves the tenant; you are told by mail when it happens."


class TenantSuspended(ProductError):
    """The tenant is suspended: nothing new starts."""

    code = "tenant_suspended"
    status = 403
    title = "The tenant is suspended"
    unblock = "Ask the platform's operator why, and to resume the tenant."


class TenantNotActive(ProductError):
    """The tenant is rejected, being deleted, or gone."""

    code = "tenant_not_active"
    status = 403
    title = "The tenant is not active"
    unblock = "Sign up again, or work in another tenant."


class SkuUnknown(ProductError):
    """No SKU has this name."""

    code = "sku_unknown"
    status = 404
    title = "There is no SKU of this name"
    unblock = "List the catalogue: gpuaas sku list."


class SkuNotPublished(ProductError):
    """The SKU is a draft or retired."""

    code = "sku_not_published"
    status = 403
    title = "The SKU is not sold"
    unblock = "Choose a published SKU: gpuaas sku list."


class EnvelopeExceeded(ProductError):
    """The request and what is held exceed what the tenant may hold."""

    code = "envelope_exceeded"
    status = 403
    title = "The request exceeds the tenant's envelope"
    unblock = "Release something, ask for less, or ask the operator for a larger envelope."


class EnvelopeBelowUse(ProductError):
    """An envelope cannot be set below what the tenant holds."""

    code = "envelope_below_use"
    status = 409
    title = "The tenant holds more than that"
    unblock = "Set the envelope to what is held or more, or have the tenant release first."


class NameTaken(ProductError):
    """Something of this name exists already."""

    code = "name_taken"
    status = 409
    title = "The name is taken"
    unblock = "Choose another name."


class SshKeyInvalid(ProductError):
    """The text is not a public key that can be used."""

    code = "ssh_key_invalid"
    status = 400
    title = "This is not a usable public SSH key"
    unblock = "Paste one line such as the content of ~/.ssh/id_ed25519.pub."


class ScopeUnknown(ProductError):
    """A token cannot have a scope that does not exist, or that its maker lacks."""

    code = "scope_unknown"
    status = 400
    title = "There is no such scope"
    unblock = "Choose from the scopes that the API reference lists."
