"""What does each address about hosts take, so that the matrix of callers can be asked?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gpuaas.kernel import clock
from tests.builders import BOOT

_REASON = {"reason": "a test"}
_NEED = {"capability": "slices", "check": "driver", "valid_s": 3600}
_WINDOW = {
    "starts_at": (clock.now() + timedelta(days=100)).isoformat(),
    "ends_at": (clock.now() + timedelta(days=101)).isoformat(),
}
FLEET: dict[str, dict[str, Any]] = {
    "readiness-terms-detail": {**_REASON, "required": [_NEED], "seen": "not looked at"},
    "readiness-terms-preview": {"required": [_NEED]},
    "readiness-terms-preview-removal": {},
    "readiness-terms-remove": {**_REASON, "seen": "not looked at"},
    "control-key-list": _REASON,
    "control-key-switch": {**_REASON, "key": "none"},
    "control-key-back": {**_REASON, "key": "none"},
    "control-key-retire": {**_REASON, "key": "none"},
    "drift-accept": _REASON,
    "drift-remove": _REASON,
    "held-allow": _REASON,
    "held-reject": _REASON,
    "pool-breaker": {**_REASON, "percent": 10, "floor": 1, "window_s": 3600},
    "node-accept": {**_REASON, "slot_index": 0},
    "node-cut": {**_REASON, "slot_index": 0, "cut": "whole"},
    "node-evidence": {**_REASON, "check": "burn_in", "verdict": "pass"},
    "node-burn-in": {**_REASON, "duration_s": 3600},
    "node-stop-burn-in": _REASON,
    "node-promote": {**_REASON, "capability": "slices"},
    "node-demote": {**_REASON, "capability": "slices"},
    "node-lift-health": {**_REASON, "gpu_uuid": "GPU-none"},
    "node-card-replace": {**_REASON, "slot_index": 7},
    "node-card-approve": {**_REASON, "slot_index": 7},
    "node-card-cancel": {**_REASON, "slot_index": 7},
    "window-list": {**_REASON, "nodes": ["host-1"], **_WINDOW},
    "window-preview": {"nodes": ["host-1"], **_WINDOW},
    "pool-notice": {**_REASON, "lead_s": 3600, "again_s": 600},
    "notice-acknowledge": {},
    "agent-telemetry": {
        "boot_id": BOOT,
        "windows": [
            {"seq": 1, "began_at": 0, "ended_at": 60, "source": "simulated", "devices": []}
        ],
    },
    "agent-observed": {
        "boot_id": BOOT,
        "seq": 9,
        "at": 0,
        "vms": [],
        "devices": {},
        "conditions": [],
    },
}
