"""In which ways may a workload be changed, and what does each ask for?"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from admission.domain.sharing import MODES
from admission.models import Workload
from admission.states import WorkloadState
from gpuaas.portal.typed import names
from gpuaas.ui.amounts import Whole
from placement.services import workload_changes as changes
from placement.services import workloads as service
from placement.services.allocations import Ticket
from placement.services.workload_changes import MOST_BAND, MOST_BATCH, MOST_REPLICAS, Change

SHARED_BY = {
    "none": "not shared: the GPUs are its own",
    "shared": "shared by time with others of yours",
    "mig": "shared as MIG instances",
    "node": "no other tenant on its nodes",
}


class ScaleForm(forms.Form):
    """How many shall run."""

    replicas = Whole(label="Replicas", min_value=1, max_value=MOST_REPLICAS)
    partial = forms.BooleanField(label="Take as many as there is room for", required=False)
    wait = forms.BooleanField(label="Wait in the queue if it must", required=False)


class BatchSizeForm(forms.Form):
    """How much a model takes at once."""

    batch_size = Whole(label="Batch size", min_value=1, max_value=MOST_BATCH)


class SharingForm(forms.Form):
    """How its GPUs may be shared."""

    mode = forms.ChoiceField(label="Its GPUs", choices=[(m, SHARED_BY[m]) for m in MODES])


class PriorityForm(forms.Form):
    """How urgent it is."""

    band = Whole(
        label="Band",
        min_value=0,
        max_value=MOST_BAND,
        help_text="0 goes first; your tier has a best.",
    )


class PlacementForm(forms.Form):
    """Where it shall run."""

    zones = forms.CharField(
        label="Zones", required=False, max_length=500, help_text="Parted by commas; empty: any."
    )
    datasets = forms.MultipleChoiceField(
        label="Near these data sets", required=False, widget=forms.CheckboxSelectMultiple
    )
    wait = forms.BooleanField(label="Wait for room, holding nothing", required=False)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to change a workload: its form, the plan of what it says, and the act."""

    verb: str
    title: str
    note: str
    form: type[forms.Form]
    plan: Callable[..., Change]
    act: Callable[..., Ticket]
    command: str

    def now(self, row: Workload) -> dict[str, Any]:
        """How it is now, as the form's fields."""
        spec = row.spec
        return {
            "replicas": row.replicas,
            "batch_size": row.batch_size,
            "mode": spec.get("sharing") or "none",
            "band": row.band,
            "zones": ", ".join(spec.get("zones", [])),
            "datasets": spec.get("datasets", []),
        }

    def given(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """What the form says, as the services take it."""
        if self.verb != "placement":
            return dict(cleaned)
        return {
            "zones": names(cleaned["zones"]),
            "datasets": tuple(cleaned.get("datasets", ())),
            "wait": cleaned["wait"],
        }

    def command_of(self, row: Workload, given: Mapping[str, Any]) -> str:
        """The same change as a command line."""
        said = [self.command, shlex.quote(row.name)]
        for name, value in given.items():
            if name in ("band", "batch_size", "mode"):
                said.append(shlex.quote(str(value)))
            elif name == "replicas":
                said.append(f"--replicas {value}")
            elif name in ("zones", "datasets"):
                said += [f"--{name[:-1]} {shlex.quote(one)}" for one in value]
            elif value:
                said.append({"wait": "--queue", "partial": "--partial"}[name])
        return " ".join(["gpuaas workload", *said])


WAYS = {
    way.verb: way
    for way in (
        Way(
            "scale",
            "Scale",
            "More are placed together, or none. Fewer: the newest are released first.",
            ScaleForm,
            changes.scale_change,
            service.workload_scale,
            "scale",
        ),
        Way(
            "batch-size",
            "Change the batch size",
            "The memory of its GPUs is checked first, by the model's figures.",
            BatchSizeForm,
            changes.batch_size_change,
            service.workload_batch_size,
            "batch-size",
        ),
        Way(
            "sharing",
            "Change GPU sharing",
            "Checked against your tier's isolation and the SKU; for what is placed from now on.",
            SharingForm,
            changes.sharing_change,
            service.gpu_sharing,
            "sharing",
        ),
        Way(
            "priority",
            "Change the priority",
            "What waits for it is ordered anew.",
            PriorityForm,
            changes.priority_change,
            service.workload_priority,
            "priority",
        ),
        Way(
            "placement",
            "Move",
            "All new places are claimed before the old ones are released; until then both count "
            "against the envelope and both are paid.",
            PlacementForm,
            changes.placement_change,
            service.workload_placement,
            "move",
        ),
    )
}


def ways_of(row: Workload) -> list[Way]:
    """How it can be changed in the state that it is in."""
    if row.state == WorkloadState.SUBMITTED:
        return [WAYS["priority"]]
    if row.state != WorkloadState.ADMITTED:
        return []
    return [way for way in WAYS.values() if way.verb != "batch-size" or row.kind == "model"]
