"""How is a GPU emptied, and is it sound? NVML tells; nvidia-smi or the bus resets."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pynvml

from nodeagent.host.cleanup.hands import Hands
from nodeagent.host.cleanup.looking import holders
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.steps import Before, Done, StepFailed
from nodeagent.host.cleanup.xids import BLOCKING, XidsUnknown, XidWatch
from nodeagent.host.commands import CommandError, run
from nodeagent.host.nvml import GpuRecord, Nvml, NvmlSession, NvmlUnavailable, read_gpus
from nodeagent.protocol import Presence

_RESET_S = 120.0
_SETTING_S = 60.0
_LET_GO_S = 15.0
_CALL_S, _COUNTS_S = 60.0, 300.0
# What the driver keeps for itself on an idle GPU; beyond that somebody's data may be there.
_IDLE_MIB = 1024
_MIB = 1024 * 1024
_MUST_NOT_GROW = ("ecc_uncorrected", "remapped_rows_failed", "remapped_rows_pending")
# What a machine may set on its GPU, outlives a reset, and the next one would find: which option of
# nvidia-smi sets it.
_MODES = {"ecc_mode": "--ecc-config", "mig_mode": "--multi-instance-gpu"}
_PERSISTENCE = "persistence"
_MINOR = re.compile(r"^Device Minor:\s*(\d{1,5})\s*$", re.M)
AS_NEW: Final[Mapping[str, int]] = {"mig_mode": 0}
"""How any GPU of a whole host goes to its tenant; ECC differs from model to model."""


class GpuCare:
    """The GPUs of this host. boot: this boot's id, since the kernel's log begins with it.

    hands: off while one of them is reset or taken from its driver.
    """

    def __init__(self, nvml: Nvml, nvidia_smi: Path, watch: XidWatch, boot: str) -> None:
        self._nvml = nvml
        self._nvidia_smi = nvidia_smi
        self._watch = watch
        self._boot = boot
        self.hands = Hands(lambda: nvml.open_sessions)

    def look(self) -> None:
        """Read on in the kernel's log. Raises OSError."""
        self._watch.look()

    def counts(self, uuid: str) -> dict[str, int]:
        """The error counters that can be read now, and how it is set (1: on)."""

        def read() -> dict[str, int]:
            with self._nvml.session() as session:
                record = _record(session, uuid)
                return _counts(session, record) | _settings(record)

        try:
            with self.hands.on():
                return self._nvml.within(_CALL_S, read, most_s=_COUNTS_S)
        except (NvmlUnavailable, StepFailed):
            return {}

    def let_go(self, uuid: str, root: Path) -> None:
        """See to it that nobody has the GPU open before its driver is taken away.

        NVIDIA's driver waits in the kernel, without end, for whoever has. Its persistence daemon
        lets go when persistence is put off; anybody else is named. Raises StepFailed.
        """
        with self._asked(uuid) as (_, record):
            persists = record.facts[_PERSISTENCE].value == "enabled"
        refused = self._smi(uuid, "--persistence-mode=0", _SETTING_S) if persists else ""
        files, until = self.device_files(uuid, root), time.monotonic() + _LET_GO_S
        while found := holders(files, root / "proc", all_seen=True, everybody=True):
            if time.monotonic() > until:
                why = f"; nvidia-smi {refused}" if refused else ""
                raise StepFailed(
                    f"{uuid} is open in {', '.join(found)}, for which its driver would wait: "
                    f"end that, or have it let go of the GPU{why}"
                )
            time.sleep(0.1)

    def scrub(
        self,
        uuid: str,
        address: str,
        bus: PciBus,
        before: Mapping[str, int] | None = None,
        root: Path = Path("/"),
    ) -> Done:
        """Reset, and look that the memory is empty. Raises StepFailed.

        before: how it was set when it was handed over. What a machine has changed is set back
        first, since it comes into force with the reset; `error_free` looks whether it did. For a
        reset over the bus its driver is taken away, which waits for whoever has it open.
        """
        back = self._set_back(uuid, before or {})
        refused = self._reset(uuid)
        if refused and self._open_in(uuid, address, bus, root):
            # Perhaps in its persistence daemon alone, which lets go.
            self._smi(uuid, "--persistence-mode=0", _SETTING_S)
            refused = self._reset(uuid)
        method, detail = "gpu_reset", "reset by the driver"
        if refused:
            users = self._open_in(uuid, address, bus, root)
            if users:
                raise StepFailed(
                    f"nvidia-smi {refused}; it is open in {', '.join(users)}: end that"
                )
            try:
                with self.hands.off():
                    how = bus.reset_without_driver(address)
            except StepFailed as error:
                raise StepFailed(f"nvidia-smi {refused}; and {error}") from error
            method, detail = "bus_reset", f"the driver refused ({refused[:200]}); reset by {how}"
        used = self._used_bytes(uuid)
        if used > _IDLE_MIB * _MIB:
            raise StepFailed(f"{used // _MIB} MiB are in use after the reset")
        if (before or {}).get(_PERSISTENCE):
            # Without it the GPU works as well, only slower to answer; nothing hangs on it.
            self._smi(uuid, "--persistence-mode=1", _SETTING_S)
        return Done(method, f"{detail}; {used // _MIB} MiB in use afterwards{back}")

    def _reset(self, uuid: str) -> str:
        with self.hands.off():
            return self._smi(uuid, "--gpu-reset", _RESET_S)

    def _open_in(self, uuid: str, address: str, bus: PciBus, root: Path) -> list[str]:
        """Whoever has the GPU open, by the file that NVML or the driver itself names.

        Raises StepFailed where neither does: then nobody knows.
        """
        try:
            files = self.device_files(uuid, root)
        except StepFailed as error:
            if not bus.driver(address):
                return []
            file = driver_file(root, address)
            if file is None:
                raise StepFailed(f"who has {uuid} open is not known: {error}") from error
            files = [file]
        return holders(files, root / "proc", all_seen=True, everybody=True)

    def _set_back(self, uuid: str, before: Mapping[str, int]) -> str:
        """Ask for the modes of before where they differ; gives which, for the evidence."""
        try:
            with self._asked(uuid) as (_, record):
                changed = [name for name in _MODES if _differs(record, name, before)]
        except StepFailed:
            # A GPU that only a reset brings back says nothing before.
            return ""
        said = ""
        for name in changed:
            refused = self._smi(uuid, f"{_MODES[name]}={before[name]}", _SETTING_S)
            said += f"; {name} was changed, {refused or 'set back'}"
        return said

    def _smi(self, uuid: str, option: str, timeout_s: float) -> str:
        """Have nvidia-smi do something to one GPU; gives why it did not, '' when it did."""
        try:
            ran = run([str(self._nvidia_smi), option, f"--id={uuid}"], timeout_s=timeout_s)
        except CommandError as error:
            return error.detail
        return "" if ran.status == 0 else f"ended with {ran.status}: {ran.complaint}"

    def device_files(self, uuid: str, root: Path) -> list[Path]:
        """The files through which the GPU is used. Raises StepFailed."""
        with self._asked(uuid) as (_, record):
            minor = record.facts["minor"].value
        if not isinstance(minor, int):
            raise StepFailed(f"the number of {uuid}'s device file is not known")
        return [root / "dev" / f"nvidia{minor}"]

    def processes(self, uuid: str) -> list[str]:
        """The processes that NVML knows on the GPU. Raises StepFailed."""
        found: list[str] = []
        with self._asked(uuid) as (session, record):
            handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, record.number).value
            for what in (
                pynvml.nvmlDeviceGetComputeRunningProcesses,
                pynvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                asked = session.ask(what, handle)
                if asked.value is None and asked.reason != "not_supported":
                    raise StepFailed(f"the GPU's processes are not known: {asked.reason}")
                found += [f"{one.pid} (on the GPU)" for one in asked.value or ()]
        return found

    def error_free(self, uuid: str, address: str, before: Before) -> Done:
        """Compare with what it counted before, and read the kernel's log. Raises StepFailed."""
        with self._asked(uuid) as (session, record):
            now = _counts(session, record)
            action = record.facts["recovery_action"]
        if action.value not in (None, "none"):
            raise StepFailed(f"the driver asks for recovery: {action.value}")
        earlier = before.counts
        worse = [
            f"{name} {(earlier or {}).get(name, 0)} -> {now[name]}"
            for name in _MUST_NOT_GROW
            if name in now and now[name] > (earlier or {}).get(name, now[name])
        ]
        # What was not counted before the claim may be of it, unless there is nothing.
        worse += [
            f"{name} {now[name]}, which was not known before the claim"
            for name in _MUST_NOT_GROW
            if earlier is not None and name not in earlier and now.get(name, 0)
        ]
        # What was counted and is not any more may have grown.
        worse += [
            f"{name} is not known any more"
            for name in _MUST_NOT_GROW
            if name in (earlier or {}) and name not in now
        ]
        worse += [
            f"{name} is not as it was before the claim"
            for name in _MODES
            if _differs(record, name, earlier or {})
        ]
        if now.get("remapped_rows_pending", 0):
            worse.append("a row waits to be remapped")
        xids, gap = self._xids(address, before)
        if gap:
            worse.append(gap)
        fatal = sorted(set(xids) & BLOCKING)
        if fatal:
            worse.append(f"XID {', '.join(map(str, fatal))}")
        if worse:
            raise StepFailed("; ".join(worse))
        seen = ", ".join(f"{name} {count}" for name, count in sorted(now.items())) or "no counters"
        never = "" if earlier is not None else "; never handed out here"
        return Done("nvml_and_kernel_log", f"{seen}; {len(xids)} XIDs, none fatal{never}"[:1000])

    def _xids(self, address: str, before: Before) -> tuple[list[int], str]:
        """The XIDs since the claim began, and what keeps them from being all of them."""
        here = before.boot == self._boot
        gap = "" if here else "the host has booted since the claim began: its log before is gone"
        try:
            return self._watch.since(address, before.since_us if here else 0), gap
        except XidsUnknown as error:
            return [], gap or str(error)
        except OSError as error:
            raise StepFailed(f"the kernel's log cannot be read: {error.strerror}") from error

    def _used_bytes(self, uuid: str) -> int:
        with self._asked(uuid) as (session, record):
            handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, record.number).value
            memory = session.ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        if memory.value is None:
            raise StepFailed(f"how much memory is in use is not known: {memory.reason}")
        return int(memory.value.used)

    @contextmanager
    def _asked(self, uuid: str) -> Iterator[tuple[NvmlSession, GpuRecord]]:
        """An open session with the record of one GPU. Raises StepFailed when it cannot be asked."""
        try:
            with self.hands.on(), self._nvml.session() as session:
                yield session, _record(session, uuid)
        except NvmlUnavailable as error:
            raise StepFailed(str(error)) from error


def driver_file(root: Path, address: str) -> Path | None:
    """The device file of a GPU by what NVIDIA's driver tells of it; None where it does not."""
    told = root / "proc/driver/nvidia/gpus" / address / "information"
    try:
        minor = _MINOR.search(told.read_text("utf-8", "replace"))
    except OSError:
        return None
    return root / "dev" / f"nvidia{minor[1]}" if minor else None


def _record(session: NvmlSession, uuid: str) -> GpuRecord:
    found = [gpu for gpu in read_gpus(session) if gpu.uuid.value == uuid]
    if len(found) != 1:
        raise StepFailed(f"NVML knows {len(found)} GPUs with the UUID {uuid}")
    return found[0]


def _counts(session: NvmlSession, record: GpuRecord) -> dict[str, int]:
    """Aggregate counters: they outlive a reset and a new driver."""
    handle = session.ask(pynvml.nvmlDeviceGetHandleByIndex, record.number).value
    ecc = session.ask(
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    )
    found = {"ecc_uncorrected": ecc.value}
    found |= {name: fact.value for name, fact in record.facts.items() if "remapped" in name}
    return {name: int(count) for name, count in found.items() if isinstance(count, int)}


def _settings(record: GpuRecord) -> dict[str, int]:
    """How it is set: 1 for on. What it cannot say is left out."""
    told = {name: record.facts[name].value for name in (*_MODES, _PERSISTENCE)}
    return {name: int(value == "enabled") for name, value in told.items() if value is not None}


def _differs(record: GpuRecord, name: str, before: Mapping[str, int]) -> bool:
    """Whether a mode that was known is, or after the next reset will be, another or unknown."""
    if name not in before:
        return False
    wanted = "enabled" if before[name] else "disabled"
    told = [record.facts[one] for one in (name, f"{name}_pending")]
    # A card that does not know a mode has it off.
    off = not before[name] and all(one.presence is Presence.ABSENT for one in told)
    return not off and any(one.value != wanted for one in told)
