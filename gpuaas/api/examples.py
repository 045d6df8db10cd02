"""What do the main calls look like?  Shown in the API's document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample


def _body(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


ORDERS = [
    _body(
        "two slots of one host",
        {"sku": "h100-slice", "slots": 2, "name": "training", "image": "ubuntu-24.04-cuda"},
    ),
    _body("a whole host, queued until one is free", {"sku": "h100-node", "wait": True}),
]
RELEASE = [_body("done", {"reason": "training is done"})]
SIGNUP = [
    _body(
        "a new tenant",
        {
            "email": "ada@example.com",
            "password": "a long passphrase of one's own",
            "tenant_name": "Analytical Engines",
        },
    )
]
SIGN_IN = [
    _body(
        "for the command line",
        {"email": "ada@example.com", "password": "a long passphrase of one's own"},
    )
]
TOKEN = [
    _body(
        "for a pipeline that may only look",
        {"name": "pipeline", "scopes": ["allocations:read"], "expires_in_days": 30},
    )
]
SSH_KEY = [
    _body(
        "a laptop's key",
        {
            "name": "laptop",
            "public_key": "ssh-ed25519 "
            "AAAAC3NzaC1lZDI1NTE5AAAAIBn1Jd4YbS0nO0cC3m3h1wq0v6C4tqk1i0pC7a5hZ2qX ada@laptop",
        },
    )
]
NODE = [_body("a host of rack r7", {"name": "gpu-0017", "zone": "z1", "rack": "r7"})]
ENVELOPE = [
    _body("sixteen slots", {"nominal_milli": 16000, "reason": "contract of November"}),
]
