"""What is a PCI device, judged by its address, class and vendor and by nothing else?"""

from __future__ import annotations

import re
from enum import StrEnum

from nodeagent.protocol import NicKind

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*GT/s", re.IGNORECASE)

NVIDIA, AMD, INTEL, AMAZON = "10de", "1002", "8086", "1d0f"
GPU_VENDORS = frozenset({NVIDIA, AMD})
EMULATORS = frozenset({"1b36", "15ad", "1414", "80ee"})
"""Vendors of bridges that only virtual machines have: Red Hat, VMware, Microsoft, Oracle."""
_EFA_DEVICE = re.compile(r"efa[0-9a-f]")


class DeviceKind(StrEnum):
    """The families that matter to slots."""

    GPU = "gpu"
    NIC = "nic"
    NVME = "nvme"
    NVSWITCH = "nvswitch"
    BRIDGE = "bridge"
    DISPLAY = "display"
    ACCELERATOR = "accelerator"
    OTHER = "other"
    UNKNOWN = "unknown"


def normal_address(text: str | None) -> str | None:
    """dddd:bb:dd.f in lower case with at least four domain digits; None when not an address."""
    match = _ADDRESS.fullmatch(text.strip()) if text else None
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def address_key(address: str | None) -> tuple[int, int, int, int]:
    """Sort key in the order in which drivers number devices; unknown addresses come last."""
    if address is None:
        return (2**32, 0, 0, 0)
    domain, bus, rest = address.split(":")
    device, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)


def card_of(address: str) -> str:
    """The address without its function: functions of one card share it."""
    return address.rpartition(".")[0]


def hex_id(text: str | None) -> str | None:
    """A class, vendor or device number as bare lower-case hex digits; None when not one."""
    digits = (text or "").strip().lower().removeprefix("0x")
    return digits if digits and all(c in "0123456789abcdef" for c in digits) else None


def kind_of(class_code: str | None, vendor: str | None, *, bare_display_is_gpu: bool) -> DeviceKind:
    """The family of a device.

    class_code: at least four bare hex digits, None when unknown. vendor: four bare hex digits.
    bare_display_is_gpu: whether a VGA or processing device without further evidence counts as a
    GPU. An NCCL file only lists what takes part in communication; hwloc lists everything, also the
    management displays of servers, some of which were made by AMD.
    """
    if class_code is None or len(class_code) < 4:
        return DeviceKind.UNKNOWN
    base, sub = class_code[:2], class_code[2:4]
    unvouched = vendor is None and bare_display_is_gpu
    if base == "03":
        compute = sub == "02" or vendor == NVIDIA or unvouched
        amd = vendor == AMD and (sub == "80" or bare_display_is_gpu)
        intel = vendor == INTEL and sub == "80"
        return DeviceKind.GPU if compute or amd or intel else DeviceKind.DISPLAY
    if base == "12":
        return DeviceKind.GPU if vendor in GPU_VENDORS or unvouched else DeviceKind.ACCELERATOR
    if base == "06" and sub == "80":
        is_cpu = class_code[4:6] == "01"
        known = vendor == NVIDIA or unvouched
        return DeviceKind.NVSWITCH if known and not is_cpu else DeviceKind.OTHER
    if base == "06":
        return DeviceKind.BRIDGE
    if base == "02" or class_code[:4] == "0c06":
        return DeviceKind.NIC
    if class_code[:4] == "0108":
        return DeviceKind.NVME
    return DeviceKind.UNKNOWN if class_code[:4] == "0000" else DeviceKind.OTHER


def nic_kind(class_code: str | None, vendor: str | None, device: str | None) -> NicKind:
    """What a NIC speaks, by its class, or by Amazon's device number for EFA."""
    if vendor == AMAZON and device is not None and _EFA_DEVICE.match(device):
        return NicKind.EFA
    match (class_code or "")[:4]:
        case "0207" | "0c06":
            return NicKind.INFINIBAND
        case "0200":
            return NicKind.ETHERNET
        case _:
            return NicKind.UNKNOWN


def link_mbps(speed: str | None, width: str | None) -> int | None:
    """PCIe bandwidth in megabits a second after line encoding; None when either is unknown.

    speed: for example "16 GT/s" or "32.0 GT/s PCIe"; width: lanes. Empty and zero are unknown.
    """
    match = _SPEED.match(speed.strip()) if speed else None
    lanes = int(width) if width and width.strip().isdecimal() and len(width) < 4 else 0
    if match is None or not 1 <= lanes <= 32:
        return None
    transfers = float(match.group(1))
    if transfers <= 5:
        efficiency = 8 / 10
    elif transfers <= 32:
        efficiency = 128 / 130
    else:
        efficiency = 242 / 256
    return int(transfers * 1000 * lanes * efficiency) or None
