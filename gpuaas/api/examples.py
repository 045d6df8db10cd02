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
MEMBER = [_body("a colleague", {"email": "grace@example.com", "role": "member"})]
ROLE = [_body("one who only reads", {"role": "viewer"})]
ENTITLEMENT = [
    _body(
        "for one quarter",
        {"sku": "h100-slice", "until": "2027-04-01T00:00:00Z", "reason": "a trial until April"},
    )
]
CATALOGUE = [_body("only what is granted", {"catalogue": "listed", "reason": "contract 17"})]
DATASET = [
    _body(
        "near its storage",
        {"name": "imagenet", "zones": ["z1"], "storage": ["nvme-pool-a"], "required": True},
    )
]
DATASET_VERSION = [_body("copied to a second zone", {"zones": ["z1", "z2"]})]
WORKLOADS = [
    _body(
        "a job of two replicas",
        {"kind": "job", "name": "train", "sku": "h100-slice", "slots": 4, "replicas": 2},
    ),
    _body(
        "a model whose memory is checked",
        {
            "kind": "model",
            "name": "chat",
            "sku": "h100-slice",
            "slots": 2,
            "batch_size": 16,
            "spec": {
                "model": {
                    "parameters": 8_000_000_000,
                    "milli_bytes_per_parameter": 2000,
                    "layers": 32,
                    "kv_heads": 8,
                    "head_dim": 128,
                    "kv_bytes": 2,
                    "context_tokens": 8192,
                }
            },
        },
    ),
]
SCALE = [_body("as many as fit, up to eight", {"replicas": 8, "partial": True})]
BATCH_SIZE = [_body("twice as much", {"batch_size": 32})]
SHARING = [_body("nobody else on its GPUs", {"mode": "none"})]
PLACEMENT = [_body("to the zone of its data", {"zones": ["z2"], "datasets": ["imagenet"]})]
PRIORITY = [_body("after the urgent", {"band": 200})]
QUOTA_INCREASE = [
    _body(
        "for a larger run",
        {
            "resource_class": "h100-slot",
            "nominal_asked_milli": 64000,
            "justification": "The next run needs 64 slots for two weeks.",
        },
    )
]
BURST = [
    _body(
        "eight more each night",
        {
            "resource_class": "h100-slot",
            "name": "night",
            "extra_milli": 8000,
            "opens_at": "2026-12-01T20:00:00Z",
            "closes_at": "2026-12-02T06:00:00Z",
            "every_s": 86400,
            "on_close": "drain",
            "reason": "unused at night",
        },
    )
]
CAPS = [_body("four hundred a month", {"spend_hard_micro": 400_000_000, "reason": "the budget"})]
COHORT = [_body("a lab under its university", {"name": "lab", "parent": "university"})]
TIER = [
    _body(
        "one that may be preempted",
        {
            "name": "spot",
            "title": "Spot",
            "terms": {"preemptible": True, "preemption": "by_band", "priority_band": 900},
            "reason": "for what can wait",
        },
    )
]
TIER_TERMS = [_body("a longer grace", {"terms": {"checkpoint_grace_s": 600}})]
STORAGE = [
    _body(
        "a pool of one zone",
        {"name": "nvme-pool-a", "kind": "nvme", "zones": ["z1"], "reason": "installed"},
    )
]
DEFRAG = [_body("room for eight slots in two moves", {"sku": "h100-slice", "slots": 8, "moves": 2})]
SEPARATION = [
    _body("two competitors", {"tenants": ["acme", "globex"], "reason": "competitors, by contract"})
]
PLACEMENT_TERMS = [
    _body("wiring of its own, by a recent driver", {"alone": "wiring", "driver_min": "550"})
]
