"""What has the operator decided of a host's NICs and NVMes: which stay, and which are divided?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nodeagent.host.discovery.bus import PciDevice
from nodeagent.topology.pci import DeviceKind, address_key

MOST_FUNCTIONS = 16
"""Virtual functions of one card that are handed out; a report has room for some hundred NICs."""


@dataclass(frozen=True)
class Handing:
    """keep: addresses of NICs and NVMes that stay with the host, with all that is on them.

    functions: where a NIC has virtual functions, they are handed out and it stays with the host.
    """

    keep: frozenset[str] = frozenset()
    functions: bool = False

    def keeps(self, device: PciDevice) -> bool:
        """Whether the operator keeps it, or the card that it is a virtual function of."""
        return not self.keep.isdisjoint((device.address, device.physical))

    def functions_of(self, device: PciDevice) -> tuple[str, ...]:
        """The virtual functions that are handed out in a NIC's place."""
        if not self.functions or device.kind is not DeviceKind.NIC or self.keeps(device):
            return ()
        return tuple(sorted(device.virtual, key=address_key)[:MOST_FUNCTIONS])

    def all_functions(self, bus: Mapping[str, PciDevice]) -> frozenset[str]:
        """Of every NIC, those that are on the bus."""
        found = (one for device in bus.values() for one in self.functions_of(device))
        return frozenset(one for one in found if one in bus)

    def unknown(self, bus: Mapping[str, PciDevice]) -> list[str]:
        """What is to be kept and is no NIC and no NVMe here."""
        kinds = (DeviceKind.NIC, DeviceKind.NVME)
        return sorted(
            address for address in self.keep if address not in bus or bus[address].kind not in kinds
        )


AS_FOUND: Final = Handing()
"""The operator has said nothing."""
