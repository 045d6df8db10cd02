"""How does a PCI device change hands between the host's driver and a machine? Through sysfs."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection
from pathlib import Path

from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.runtime.owners import Owner
from nodeagent.protocol import PCI_PATTERN
from nodeagent.topology.pci import card_of, normal_address

_VFIO = "vfio-pci"
# PCI class codes of PCI-to-PCI bridges begin so.
_BRIDGE = "0x0604"
_ADDRESS = re.compile(PCI_PATTERN)
_SETTLE_S = 5.0


class PciBus:
    """The host's PCI devices below a root folder ('/' but for tests). put: writes to a file."""

    def __init__(self, root: Path, put: Callable[[Path, str], object] = Path.write_text) -> None:
        self._root = root
        self._put = put

    def folder(self, address: str) -> Path:
        """The device's folder in sysfs. Raises StepFailed when it is not there."""
        if not _ADDRESS.fullmatch(address):
            raise StepFailed("not a PCI address")
        path = self._root / "sys/bus/pci/devices" / address
        if not path.exists():
            raise StepFailed(f"{address} is not on the bus")
        return path

    def driver(self, address: str) -> str:
        """The driver that has the device, '' for none. Raises StepFailed."""
        link = self.folder(address) / "driver"
        return os.path.basename(os.readlink(link)) if link.is_symlink() else ""

    def group_others(
        self, address: str, own: Collection[str], sold: Collection[str | None]
    ) -> list[str]:
        """What else is in the device's IOMMU group and not in `own`. Raises StepFailed.

        Bridges do not count, since they go with what is below them; nor do other functions of the
        same card, unless they are among the devices that are `sold` by themselves.
        """
        members = self.folder(address) / "iommu_group" / "devices"
        cards = {card_of(one) for one in own}
        found = []
        for entry in members.iterdir() if members.is_dir() else ():
            other = normal_address(entry.name)
            if other is None or other in own or self._is_bridge(other):
                continue
            if other in sold or card_of(other) not in cards:
                found.append(other)
        return sorted(found)

    def companions(self, own: Collection[str], sold: Collection[str | None]) -> list[str]:
        """Functions of the same cards and groups that nobody is sold, as a graphics card's sound.

        VFIO opens a group only when none of its members has a driver of the host's. Raises
        StepFailed.
        """
        cards = {card_of(one) for one in own}
        found = set()
        for address in own:
            members = self.folder(address) / "iommu_group" / "devices"
            for entry in members.iterdir() if members.is_dir() else ():
                other = normal_address(entry.name)
                if other is None or other in own or other in sold or self._is_bridge(other):
                    continue
                if card_of(other) in cards:
                    found.add(other)
        return sorted(found)

    def _is_bridge(self, address: str) -> bool:
        try:
            code = (self.folder(address) / "class").read_text("ascii", "replace").strip()
        except (OSError, StepFailed):
            return False
        return code.startswith(_BRIDGE)

    def give_to_vfio(self, address: str, owner: Owner | None) -> None:
        """Bind a device for the machine of this user, None being this process'.

        Raises StepFailed.
        """
        if self.driver(address) != _VFIO:
            self._write(address, "driver_override", _VFIO)
            self._unbind(address)
            self._probe(address)
        if not self._settled(address, vfio=True):
            raise StepFailed(f"{address} was not taken by {_VFIO}; is the module loaded?")
        if owner is not None:
            try:
                os.chown(self.vfio_file(address), owner.uid, owner.gid)
            except OSError as error:
                raise StepFailed(f"{address}: the group cannot be given to its user") from error

    def take_back(self, address: str) -> str:
        """Give a device back to the host's own driver; gives its name. Raises StepFailed."""
        if self.driver(address) == _VFIO:
            self._unbind(address)
        self._write(address, "driver_override", "\n")
        self._probe(address)
        if not self._settled(address, vfio=False):
            raise StepFailed(f"{address} stays with {_VFIO}")
        return self.driver(address) or "none"

    def reset(self, address: str) -> str:
        """Reset one function; gives how, as the kernel names it. Raises StepFailed."""
        folder = self.folder(address)
        if not (folder / "reset").exists():
            raise StepFailed(f"{address} cannot be reset by itself")
        try:
            method = (folder / "reset_method").read_text("ascii", "replace").split()
        except OSError:
            method = []
        self._write(address, "reset", "1")
        return method[0] if method else "function"

    def reset_by(self, address: str, allowed: Collection[str]) -> str:
        """Reset a function that no driver has, by the first of the kernel's methods that is allowed
        and works; gives which. Raises StepFailed.

        The kernel does not say which one it took, so it is offered one after the other, and its own
        order put back; before as well, where a kill came between the two.
        """
        folder, refused = self.folder(address), []
        if self.driver(address):
            raise StepFailed(f"{address} has a driver, which a reset would not be told of")
        if not (folder / "reset").exists():
            raise StepFailed(f"{address} was not reset: the kernel cannot reset it by itself")
        self._default_order(address)
        try:
            own = (folder / "reset_method").read_text("ascii", "replace").split()
        except OSError:
            own = []
        for method in own:
            if method not in allowed:
                continue
            try:
                self._write(address, "reset_method", method)
                self._write(address, "reset", "1")
            except StepFailed as error:
                refused.append(f"{method}: {error}")
            else:
                return method
            finally:
                self._default_order(address)
        why = "; ".join(refused) or f"the kernel knows {' '.join(own) or 'no reset'}"
        raise StepFailed(f"{address} was not reset ({why})")

    def _default_order(self, address: str) -> None:
        # It is no part of the reset: where it fails, the next reset begins with it.
        with contextlib.suppress(StepFailed):
            self._write(address, "reset_method", "default")

    def let_go(self, address: str) -> None:
        """Take a device from its driver. Raises StepFailed."""
        self._unbind(address)

    def reset_without_driver(self, address: str) -> str:
        """Reset one function while no driver has it; gives how. Raises StepFailed.

        The kernel presumes that what it resets so is unused (__pci_reset_function_locked in its
        drivers/pci/pci.c): a driver that stays bound goes on with a device that has forgotten all
        that it was told. The driver must have no users, or the kernel may wait for them for ever.
        """
        driver = self.driver(address)
        self._unbind(address)
        try:
            how = self.reset(address)
        except StepFailed as error:
            self._bound_again(address, driver, f"{error}; and ")
            raise
        self._bound_again(address, driver, f"reset by {how}; ")
        return how

    def _bound_again(self, address: str, driver: str, before: str) -> None:
        until = time.monotonic() + _SETTLE_S
        while driver and self.driver(address) != driver:
            self._probe(address)
            if time.monotonic() > until:
                raise StepFailed(f"{before}{driver} does not take {address} again")
            time.sleep(0.05)

    def vfio_file(self, address: str) -> Path:
        """The device file of its IOMMU group. Raises StepFailed."""
        link = self.folder(address) / "iommu_group"
        if not link.is_symlink():
            raise StepFailed(f"{address} is in no IOMMU group: is the IOMMU on?")
        return self._root / "dev/vfio" / os.path.basename(os.readlink(link))

    def _unbind(self, address: str) -> None:
        if self.driver(address):
            self._write(address, "driver/unbind", address)

    def _probe(self, address: str) -> None:
        path = self._root / "sys/bus/pci/drivers_probe"
        try:
            self._put(path, address)
        except OSError:
            # The kernel answers so where no driver wants the device; who has it is looked at next.
            return

    def _settled(self, address: str, *, vfio: bool) -> bool:
        until = time.monotonic() + _SETTLE_S
        while (self.driver(address) == _VFIO) is not vfio:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def _write(self, address: str, name: str, text: str) -> None:
        try:
            self._put(self.folder(address) / name, text)
        except OSError as error:
            raise StepFailed(f"{address}: {name}: {error.strerror}") from error
