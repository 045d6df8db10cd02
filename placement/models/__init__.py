"""What is remembered about inventory, holds and the work done on hosts?"""

from placement.models.allocation import (
    Allocation,
    Claim,
    ClaimDevice,
    CleanupOverride,
    CleanupProof,
)
from placement.models.breaker import AutomaticAction, BreakerRule
from placement.models.defrag import Defragmentation, DefragPolicy
from placement.models.drift import Drift
from placement.models.evidence import NodeCapability, ReadinessEvidence, ReadinessTerms
from placement.models.health import DeviceHealth, XidEvent
from placement.models.identity import IdentityDifference, NodeIdentity
from placement.models.inventory import CutSlot, GpuDevice, Image, NodeFamily, Pool, Slot
from placement.models.maintenance import MaintenanceWindow, Notice
from placement.models.node import JoinToken, Node, NodeCredential, NodeDrain
from placement.models.replacement import CardReplacement
from placement.models.residue import SlotResidue
from placement.models.task import NodeTask, TaskObservation
from placement.models.telemetry import NodeTelemetry, TelemetryWindow
from placement.models.terms import PlacementTerms, Scoring, Separation

__all__ = [
    "Allocation",
    "AutomaticAction",
    "BreakerRule",
    "CardReplacement",
    "Claim",
    "ClaimDevice",
    "CleanupOverride",
    "CleanupProof",
    "CutSlot",
    "DefragPolicy",
    "Defragmentation",
    "DeviceHealth",
    "Drift",
    "GpuDevice",
    "IdentityDifference",
    "Image",
    "JoinToken",
    "MaintenanceWindow",
    "Node",
    "NodeCapability",
    "NodeCredential",
    "NodeDrain",
    "NodeFamily",
    "NodeIdentity",
    "NodeTask",
    "NodeTelemetry",
    "Notice",
    "PlacementTerms",
    "Pool",
    "ReadinessEvidence",
    "ReadinessTerms",
    "Scoring",
    "Separation",
    "Slot",
    "SlotResidue",
    "TaskObservation",
    "TelemetryWindow",
    "XidEvent",
]
