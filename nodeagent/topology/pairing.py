"""Which NIC (or NVMe) belongs to which GPU?

The rule, the same for NICs and NVMes; it looks at the tree only, never at a model's name:

1. Only a device with a PCI address can be given to anybody. Functions of one card (same address but
   for the last digit) are one card and are never split between GPUs; nor is a card that is on the
   bus at several addresses (the halves of a NIC's link, the ports of a disk). A card that the host
   itself lives by (its root disk, the way to its gateway) stays with the host, whole. A virtual
   function that is handed out in its card's place is a card by itself.
2. A card's home is the nearest bridge above it that has a GPU somewhere below; if no bridge has,
   the NUMA node, if it has a GPU. A card without such a home, or of unknown place, pairs with none.
3. Better kinds first: InfiniBand and EFA, then Ethernet, then unknown kinds. A GPU that got
   something in an earlier round takes no part in a later one, so a management port beside a fabric
   card is never handed out. Within a kind, deeper homes first.
4. At a home with n GPUs still to serve and m cards, both in order of PCI address:
   m >= n: each GPU gets m // n cards to itself, the first GPU the first cards, and so on; what is
   left over stays with the host as a spare.
   m < n: nobody gets one alone; GPU number i is beside card number i * m // n, which is shared.
5. A GPU left without is `none` when the source lists devices of this family at all and the GPU's
   place is known; otherwise `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from nodeagent.protocol import DeviceMode, Gpu, Nic, NicKind, Nvme, Switch
from nodeagent.topology.model import ancestors
from nodeagent.topology.pci import address_key, card_of

_RANKS = {NicKind.INFINIBAND: 0, NicKind.EFA: 0, NicKind.ETHERNET: 1, NicKind.UNKNOWN: 2}


@dataclass(frozen=True)
class Share:
    """What one GPU has of a family; first is the device named in the slot."""

    mode: DeviceMode
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pairing:
    """Shares by GPU index, and devices that went to nobody."""

    shares: Mapping[int, Share]
    spare: tuple[str, ...]


@dataclass(frozen=True)
class _Card:
    devices: tuple[str, ...]
    rank: int
    path: tuple[str, ...]
    key: tuple[int, int, int, int]


@dataclass(frozen=True)
class _Names:
    """Which card a function is of."""

    apart: Set[str]
    joined: Mapping[str, str]

    def card(self, address: str) -> str:
        """A name that all functions of one card have."""
        card = card_of(address)
        return address if address in self.apart else self.joined.get(card, card)


def pair(
    gpus: Sequence[Gpu],
    devices: Sequence[Nic] | Sequence[Nvme],
    switches: Sequence[Switch],
    apart: Set[str] = frozenset(),
    joined: Mapping[str, str] | None = None,
) -> Pairing:
    """Pair one family of devices with GPUs by the rule above.

    apart: cards by themselves. joined: of which card an address without function is a part.
    """
    names = _Names(apart, joined or {})
    above = {switch.id: switch for switch in switches}
    below: dict[str, list[Gpu]] = defaultdict(list)
    for gpu in sorted(gpus, key=lambda one: (address_key(one.pci), one.index)):
        for place in _path(gpu.switch, gpu.numa, above):
            below[place].append(gpu)

    shares: dict[int, Share] = {}
    kept = {names.card(one.pci) for one in devices if one.pci and one.reserved}
    spare = [one.id for one in devices if one.pci is None or names.card(one.pci) in kept]
    homes: dict[tuple[int, int, str], list[_Card]] = defaultdict(list)
    for card in _cards(devices, above, kept, names):
        home = next((place for place in card.path if place in below), None)
        if home is None:
            spare.extend(card.devices)
        else:
            depth = len(card.path) - card.path.index(home)
            homes[(card.rank, -depth, home)].append(card)
    for (_, _, home), cards in sorted(homes.items(), key=lambda item: item[0]):
        waiting = [gpu for gpu in below[home] if gpu.index not in shares]
        spare.extend(_serve(waiting, sorted(cards, key=lambda card: card.key), shares))

    for gpu in gpus:
        known = bool(devices) and (gpu.numa is not None or gpu.switch is not None)
        shares.setdefault(gpu.index, Share(DeviceMode.NONE if known else DeviceMode.UNKNOWN))
    return Pairing(shares, tuple(spare))


def _serve(waiting: list[Gpu], cards: list[_Card], shares: dict[int, Share]) -> list[str]:
    """Give a home's cards to its waiting GPUs; the devices that are left over come back."""
    if not waiting:
        return [device for card in cards for device in card.devices]
    if len(cards) < len(waiting):
        for place, gpu in enumerate(waiting):
            card = cards[place * len(cards) // len(waiting)]
            shares[gpu.index] = Share(DeviceMode.SHARED, card.devices[:1])
        return []
    each = len(cards) // len(waiting)
    for place, gpu in enumerate(waiting):
        own = cards[place * each : (place + 1) * each]
        devices = tuple(device for card in own for device in card.devices)
        shares[gpu.index] = Share(DeviceMode.EXCLUSIVE, devices)
    return [device for card in cards[each * len(waiting) :] for device in card.devices]


def _cards(
    devices: Sequence[Nic] | Sequence[Nvme],
    above: Mapping[str, Switch],
    kept: Set[str],
    names: _Names,
) -> list[_Card]:
    functions: dict[str, list[Nic | Nvme]] = defaultdict(list)
    for device in devices:
        if device.pci is not None and names.card(device.pci) not in kept:
            functions[names.card(device.pci)].append(device)
    cards: list[_Card] = []
    for members in functions.values():
        members.sort(key=lambda one: address_key(one.pci))
        first = members[0]
        ranks = [_RANKS[one.kind] if isinstance(one, Nic) else 0 for one in members]
        path = tuple(_path(first.switch, first.numa, above))
        ids = tuple(one.id for one in members)
        cards.append(_Card(ids, min(ranks), path, address_key(first.pci)))
    return cards


def _path(switch: str | None, numa: int | None, above: Mapping[str, Switch]) -> list[str]:
    """The places a device is in, nearest first, ending with its NUMA node when known."""
    places = [f"switch {name}" for name in ancestors(switch, above)]
    return places if numa is None else [*places, f"numa {numa}"]
