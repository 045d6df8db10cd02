"""What can be wrong with the keys by which hosts know the control plane's tasks?"""

from __future__ import annotations

from gpuaas.kernel.errors import ProductError


class ControlKeyPrepared(ProductError):
    """There is a next key; hosts may have been told of it."""

    code = "control_key_prepared"
    status = 409
    title = "A next key is prepared already"
    unblock = "Switch to it, or retire it."


class ControlKeyMissing(ProductError):
    """No key is there that could take the present one's place."""

    code = "control_key_missing"
    status = 409
    title = "There is no such key"
    unblock = "Look at the list of control keys: it says what each can be used for."


class ControlKeyKept(ProductError):
    """The key of before is still kept, for the way back."""

    code = "control_key_kept"
    status = 409
    title = "The key of before is still kept"
    unblock = "Go back to it, or retire it first."


class ControlKeyBelieved(ProductError):
    """Hosts may still be given, and believe, what the key of before has signed."""

    code = "control_key_believed"
    status = 409
    title = "The key of before may still be in use"
    unblock = "Wait until the hour since it signed last is over."
    retryable = True


class ControlKeySigns(ProductError):
    """It is the key that signs."""

    code = "control_key_signs"
    status = 409
    title = "This key signs what hosts are told to do"
    unblock = "Switch to another one first."


class ControlKeysUnusable(ProductError):
    """The files of the keys cannot be read, or not be written."""

    code = "control_keys_unwritable"
    status = 503
    title = "The control plane cannot read or write its signing keys"
    unblock = "Look at the folder of the signing key on the control plane's own machine."
