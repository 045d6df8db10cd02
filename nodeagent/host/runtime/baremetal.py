"""How is a whole host given to a tenant and taken back? By the operator's hooks.

The agent of such a host runs where its tenant cannot reach it (a management machine or a DPU), so
that every step, those of the cleanup included, is done and looked at by a hook.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodeagent.backend import BackendError
from nodeagent.host.cleanup.steps import Done, StepFailed
from nodeagent.host.hooks import Hooks
from nodeagent.host.records import Tenancy
from nodeagent.host.runtime.seed import seed_files
from nodeagent.protocol import CleanupStep, SlotDevices


class BareHost:
    """The host as a whole. name: by which the hooks know it."""

    def __init__(self, name: str, hooks: Hooks) -> None:
        self._name = name
        self._hooks = hooks

    def install(self, tenancy: Tenancy) -> Tenancy:
        """Network and image; gives the record with the address. Raises BackendError."""
        answer = self._hooks.call("network", "attach", **self._whom(tenancy))
        seed = seed_files(tenancy.claim, tenancy.hostname, tenancy.user, tenancy.ssh_keys)
        self._hooks.call(
            "provision", "install", image=tenancy.image, seed=seed, **self._whom(tenancy)
        )
        return replace(tenancy, host=answer.host(), port=answer.port())

    def start(self, tenancy: Tenancy) -> None:
        """Power. Raises BackendError."""
        self._hooks.call("power", "on", **self._whom(tenancy))

    def clean(self, claim: str, step: CleanupStep, slot: SlotDevices) -> Done:
        """One step for one slot. Raises StepFailed."""
        hook, action = {
            CleanupStep.VM_GONE: ("power", "off"),
            CleanupStep.NIC_RESET: ("network", "detach"),
        }.get(step, ("sanitise", step.value))
        try:
            answer = self._hooks.call(
                hook, action, node=self._name, claim=claim, slot=slot.to_json()
            )
        except BackendError as error:
            raise StepFailed(error.detail) from error
        return Done(answer.method, answer.detail)

    def _whom(self, tenancy: Tenancy) -> dict[str, Any]:
        return {"node": self._name, "claim": tenancy.claim, "hostname": tenancy.hostname}
