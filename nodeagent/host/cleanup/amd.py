"""How is one of AMD's GPUs emptied, and is it sound?

The kernel's driver tells; `amdsmi`, where it is installed, or the bus resets. A reset on the way
out of a machine is not taken as one: it is done again here, where it is seen. What cannot be read
counts against the GPU.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from nodeagent.host.cleanup.amd_library import reset_apart
from nodeagent.host.cleanup.looking import holders
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.steps import Before, Done, StepFailed
from nodeagent.host.cleanup.xids import KernelLog
from nodeagent.host.discovery.amd_card import AMDGPU, NO_HIVE, RESETS, VFIO, AmdCard
from nodeagent.host.discovery.bus import read_bus
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import absent
from nodeagent.protocol import TopologyReport
from nodeagent.topology.pci import normal_address

_LET_GO_S = 15.0
_MIB = 1024 * 1024
# amdgpu keeps some hundreds of MiB of an idle GPU for firmware, page tables and its own buffers; no
# document says how many. So: what it had before the hand-over and a little for another boot of its
# firmware, and never more than what an idle GPU of the other vendor may have.
_IDLE_MIB, _MORE_MIB = 1024, 64
# What amdgpu_device_gpu_recover writes about each GPU that it has reset.
_SUCCEEDED: Final = re.compile(
    r"amdgpu ([0-9a-f:.]{12,16}): (?:amdgpu: )?GPU reset\(\d+\) succeeded", re.IGNORECASE
)
# It writes that after any reset. Only these two lose the memory, as amdgpu_device_check_vram_lost
# has it; MODE2, the one of an MI300A and of `reset_method=3`, keeps what a tenant left.
_LOST: Final = re.compile(
    r"amdgpu ([0-9a-f:.]{12,16}): (?:amdgpu: )?(?:MODE1|BACO) reset\s*$", re.IGNORECASE
)
UNCORRECTED, RETIRED, WAITING, USED = (
    "ras_uncorrected",
    "bad_pages",
    "bad_pages_waiting",
    "memory_used_mib",
)


class AmdCare:
    """AMD's GPUs of this host. report: its own wiring, in which hives are named as last read.

    library: has AMD's library reset one; says why that did not happen.
    turn: held while one goes to a machine or is reset: what is done to one of a hive hits all.
    """

    def __init__(
        self,
        root: Path,
        bus: PciBus,
        log: KernelLog,
        report: Callable[[], TopologyReport],
        library: Callable[[str], str] = reset_apart,
    ) -> None:
        self._root = root
        self._tree = Tree(root)
        self._bus = bus
        self._log = log
        self._report = report
        self._library = library
        self.turn = threading.Lock()

    def has(self, address: str) -> bool:
        """Whether the device was made by AMD."""
        return self._card(address).is_one

    def refuse_unprovable(self, address: str, together: Sequence[str]) -> None:
        """Before a machine gets it: what could not be cleaned afterwards is not given away.

        together: what goes to the same machine. Raises StepFailed.
        """
        card = self._card(address)
        mates = [one for one in self._hive(address) if one not in together]
        if mates:
            raise StepFailed(
                f"{address} is in one hive with {', '.join(mates)}, and a reset of one resets all: "
                "it is given away only together with them"
            )
        told = card.cleanable(absent(NO_HIVE))
        if told.value is None:
            raise StepFailed(
                f"{address} could not be cleaned after a machine had it ({told.reason}): it is not "
                "given away"
            )

    def let_go(self, address: str) -> None:
        """Wait until nobody has it open, before its driver is taken away. Raises StepFailed."""
        if self._card(address).driver != AMDGPU:
            return
        until = time.monotonic() + _LET_GO_S
        while found := self.users(address):
            if time.monotonic() > until:
                raise StepFailed(
                    f"{address} is open in {', '.join(found)}: end that, or have it let go of it"
                )
            time.sleep(0.1)

    def counts(self, address: str) -> dict[str, int]:
        """What its driver counts now, and how much of its memory is in use, as far as it says."""
        card = self._card(address)
        pages, used = card.bad_pages().value, card.memory_used().value
        found = {
            UNCORRECTED: card.uncorrected().value,
            RETIRED: None if pages is None else pages.retired,
            WAITING: None if pages is None else pages.waiting,
            USED: None if used is None else used // _MIB,
        }
        return {name: count for name, count in found.items() if count is not None}

    def scrub(self, address: str, before: Mapping[str, int] | None) -> Done:
        """Reset it, with all of its hive, and look that its memory is empty. Raises StepFailed.

        before: what was counted when it was handed over; None where it never was.
        """
        self._refuse_driverless(address)
        with self.turn:
            mates = self._hive(address)
            self._refuse_used(address, mates)
            method, detail = self._reset(address, mates)
        used = self._card(address).memory_used()
        if used.value is None:
            raise StepFailed(f"{detail}; how much memory is in use is not known: {used.reason}")
        floor = (before or {}).get(USED)
        most = _IDLE_MIB if floor is None else min(_IDLE_MIB, floor + _MORE_MIB)
        mib = used.value // _MIB
        if mib > most:
            raise StepFailed(f"{mib} MiB are in use after the reset, and {most} may be; {detail}")
        known = "unknown" if floor is None else f"{floor} MiB"
        return Done(method, f"{detail}; {mib} MiB in use afterwards, before the claim {known}")

    def device_files(self, address: str) -> list[Path]:
        """The files through which it is used. Raises StepFailed where its driver names none."""
        names = self._card(address).files()
        if not names:
            raise StepFailed(f"the device files of {address} are not known: amdgpu names none")
        return [self._root / "dev" / name for name in (*names, "kfd")]

    def users(self, address: str) -> list[str]:
        """Whoever has it open or computes on it. Raises StepFailed where nobody knows."""
        files = self.device_files(address)
        found = holders(files, self._root / "proc", all_seen=True, everybody=True)
        return found + self.processes(address)

    def processes(self, address: str) -> list[str]:
        """The processes that the compute driver has on it. Raises StepFailed where it is silent."""
        card = self._card(address)
        ids = card.compute_ids()
        if ids.value is None and ids.reason != "no_kfd":
            raise StepFailed(f"who computes on {address} is not known: {ids.reason}")
        return [f"{pid} (computes on the GPU)" for pid in card.compute_users(ids.value or ())]

    def error_free(self, address: str, before: Before) -> Done:
        """Compare with what it counted before. Raises StepFailed.

        Errors are counted anew each time the driver takes the GPU, which it has done since the
        claim: any is one too many. Pages that were taken out the card itself remembers.
        """
        self._refuse_driverless(address)
        now, earlier = self.counts(address), before.counts
        named = (UNCORRECTED, RETIRED, WAITING)
        worse = [f"{name} is not known" for name in named if name not in now]
        if now.get(UNCORRECTED, 0):
            worse.append(f"{UNCORRECTED} {now[UNCORRECTED]} since its driver took it")
        if now.get(WAITING, 0):
            worse.append(f"{now[WAITING]} bad pages wait to be taken out")
        was = (earlier or {}).get(RETIRED)
        if earlier is not None and was is None and not before.whole_host:
            # It was handed over, and what it had counted then was not read or is lost.
            worse.append(f"{RETIRED} was not known before the claim")
        pages = now.get(RETIRED)
        if was is not None and pages is not None and pages > was:
            worse.append(f"{RETIRED} {was} -> {pages}")
        if was is not None and pages is not None and pages < was:
            # The card forgets none: its driver has not read its memory of them, or not all of it.
            worse.append(f"{RETIRED} {was} -> {pages}: not all are told")
        if worse:
            raise StepFailed("; ".join(worse))
        seen = ", ".join(f"{name} {now[name]}" for name in named)
        since = "its pages of before are not known" if was is None else f"{was} pages before"
        return Done("amdgpu_ras_counters", f"{seen}; {since}")

    def _reset(self, address: str, mates: Sequence[str]) -> tuple[str, str]:
        """Reset all that the driver has of these. Raises StepFailed."""
        mine = [one for one in mates if self._card(one).driver == AMDGPU]
        hive = f" with its hive {', '.join(mates)}" if len(mates) > 1 else ""
        refused = self._ask_library(address, mine)
        if not refused:
            return "amdsmi_gpu_reset", f"reset by its driver{hive}, which the kernel's log confirms"
        try:
            how = self._over_the_bus(mine)
        except StepFailed as error:
            raise StepFailed(f"amdsmi: {refused}; and {error}") from error
        kind = f"{how[address]}_reset"
        told = ", ".join(f"{one} by {method}" for one, method in how.items())
        return kind, f"amdsmi: {refused}; without its driver {told}{hive}"

    def _ask_library(self, address: str, mine: Sequence[str]) -> str:
        """Have AMD's library reset it; why that did not happen to all of these, '' where it did.

        The library says that all is well also where the driver did nothing, or kept the memory: the
        kernel's log has the last word.
        """
        try:
            was = self._log_end()
            refused = self._library(address)
            if refused:
                return refused
            done, lost = self._named(_SUCCEEDED, was), self._named(_LOST, was)
        except OSError as error:
            return f"the kernel's log cannot be read: {error.strerror}"
        silent = [one for one in mine if one not in done]
        if silent:
            return f"the kernel's log has no reset of {', '.join(silent)}"
        kept = [one for one in mine if one not in lost]
        if kept:
            return f"the kernel's log has no MODE1 or BACO reset of {', '.join(kept)}"
        return ""

    def _log_end(self) -> int:
        records = self._log.records()
        return records[-1].number if records else -1

    def _named(self, line: re.Pattern[str], after: int) -> set[str | None]:
        """The GPUs of which the log has this line after that record."""
        found = (line.search(one.text) for one in self._log.records() if one.number > after)
        return {normal_address(match[1]) for match in found if match is not None}

    def _over_the_bus(self, mine: Sequence[str]) -> dict[str, str]:
        """Reset each without its driver, and give all back to it. Raises StepFailed."""
        how: dict[str, str] = {}
        trouble: list[str] = []
        try:
            for one in mine:
                self._bus.let_go(one)
            for one in mine:
                how[one] = self._bus.reset_by(one, RESETS)
        except StepFailed as error:
            trouble.append(str(error))
        for one in mine:
            try:
                driver = self._bus.take_back(one)
            except StepFailed as error:
                driver = str(error)
            if driver != AMDGPU:
                trouble.append(f"{one} was not taken again by {AMDGPU} ({driver})")
        if trouble:
            raise StepFailed("; ".join(trouble))
        return how

    def _hive(self, address: str) -> list[str]:
        """All that a reset of it resets, itself among them. Raises StepFailed."""
        named = {gpu.pci: gpu.nvlink_domain for gpu in self._report().gpus}
        told = self._card(address).hive(read_bus(self._tree), named)
        if told.value is not None:
            return list(told.value)
        if told.reason != NO_HIVE:
            raise StepFailed(f"in which hive {address} is, is not known: {told.reason}")
        return [address]

    def _refuse_used(self, address: str, mates: Sequence[str]) -> None:
        """No reset under anybody's hands: of another tenant's, nor of the host's."""
        for one in mates:
            if self._card(one).driver == VFIO:
                raise StepFailed(
                    f"{address} is in one hive with {one}, which a machine has: a reset of one "
                    "resets all; it can be cleaned once that machine is gone"
                )
            if self._card(one).driver != AMDGPU:
                continue
            found = self.users(one)
            if found:
                raise StepFailed(f"{one} is open in {', '.join(found)}: end that")

    def _refuse_driverless(self, address: str) -> None:
        driver = self._bus.driver(address)
        if driver != AMDGPU:
            raise StepFailed(
                f"{address} has {driver or 'no driver'} instead of {AMDGPU}: nobody can say what "
                "is in its memory, nor what it has counted"
            )

    def _card(self, address: str) -> AmdCard:
        return AmdCard(self._tree, address)
