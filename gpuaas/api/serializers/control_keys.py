"""What goes over the wire about the keys that sign tasks, for operators?  Public halves only."""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Flag, Output, Text
from gpuaas.api.serializers.common import Listed, Reasoned
from placement.services.control_keys import ROLES


class ControlKeyOut(Output):
    """A key by which hosts know the control plane's tasks."""

    fingerprint = serializers.CharField(help_text="16 hex digits of the SHA-256, as hosts tell it.")
    public_key = serializers.CharField(help_text="Ed25519, in base64.")
    role = serializers.ChoiceField(
        choices=ROLES,
        help_text="signing: it signs; next: it was prepared; former: kept for the way back.",
    )
    retire_from = serializers.DateTimeField(
        allow_null=True, help_text="Until then hosts may be given work that it signed."
    )


class ControlKeyList(Listed):
    """Every key that is kept."""

    items = ControlKeyOut(many=True)


class ControlKeyNamed(Reasoned):
    """A step with one key, which its fingerprint confirms."""

    key = Text(max_length=64, help_text="The fingerprint, as the list has it.")


class ControlKeyRetireIn(ControlKeyNamed):
    """The end of a key that does not sign."""

    at_once = Flag(
        required=False,
        default=False,
        help_text="Do not wait until no host may be given work that it signed, as after a theft.",
    )
