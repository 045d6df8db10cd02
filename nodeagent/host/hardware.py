"""What does the agent find on a real GPU host, check by check, and what is not there to be found?

    scripts/hardware-check [--out FOLDER] [--only NAME,…] [--limit SECONDS] [--allow-reset UUID]

Needs Python 3.11 and this tree; pynvml is taken from where it is installed, or from a folder named
by --packages. Each check runs in a process of its own with a time limit, so that a driver that
hangs costs one check. It writes report.json and report.md; nothing on the host is changed, unless
--allow-reset names a GPU, which then is reset, and only when no process has it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OK, ABSENT, FAILED, TIMED_OUT, NOT_ASKED = "ok", "absent", "failed", "timed_out", "not_asked"
LIMIT_S: Final = 60.0
ROOT: Final = Path("/")
_DIES_S: float = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_WORDS: Final = 600


@dataclass(frozen=True)
class Found:
    """How one check went. detail: a sentence for people; facts: what was read."""

    status: str
    detail: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {"status": self.status, "detail": self.detail, "facts": dict(self.facts)}


class Missing(Exception):
    """What a check needs is not there."""


def _module(name: str) -> Any:
    """One of the agent's own modules. Raises Missing where what it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        detail = f"the Python package {error.name} is not installed; name its folder by --packages"
        raise Missing(detail) from error


def machine(_: argparse.Namespace) -> Found:
    """The host as its kernel shows it, without any library."""
    facts: dict[str, Any] = {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "root": os.geteuid() == 0,
        "iommu_groups": _count(ROOT / "sys/kernel/iommu_groups"),
        "kvm": (ROOT / "dev/kvm").exists(),
        "vfio_pci": (ROOT / "sys/bus/pci/drivers/vfio-pci").exists(),
        "pci_devices": _count(ROOT / "sys/bus/pci/devices"),
        "kernel_log": os.access(ROOT / "dev/kmsg", os.R_OK),
        "huge_pages": _read(ROOT / "proc/sys/vm/nr_hugepages"),
    }
    lacks = [name for name in ("kvm", "vfio_pci", "kernel_log", "iommu_groups") if not facts[name]]
    return Found(OK, f"not there: {', '.join(lacks) or 'nothing'}", facts)


def driver(_: argparse.Namespace) -> Found:
    """The NVIDIA driver, and what its own tool says."""
    version = _read(ROOT / "proc/driver/nvidia/version")
    tool = next((p for p in map(Path, _SMI) if p.exists()), None)
    facts: dict[str, Any] = {"version": version, "nvidia_smi": str(tool or "")}
    if tool is not None:
        facts["query"] = _run([str(tool), f"--query-gpu={_SMI_FIELDS}", "--format=csv"])
        facts["topology"] = _run([str(tool), "topo", "-m"])
    if version is None and tool is None:
        return Found(ABSENT, "no NVIDIA driver is loaded, and there is no nvidia-smi", facts)
    return Found(OK, (version or "the driver's version cannot be read").splitlines()[0], facts)


def nvml(_: argparse.Namespace) -> Found:
    """Every GPU as the agent reads it, each reading present, absent or unknown with its reason."""
    library = _module("nodeagent.host.nvml")
    try:
        with library.Nvml().session() as session:
            records = library.read_gpus(session)
    except library.NvmlUnavailable as error:
        return Found(ABSENT, str(error))
    gpus = [
        {name: _fact(fact) for name, fact in sorted({**_identity(one), **one.facts}.items())}
        for one in records
    ]
    unknown = sorted({name for gpu in gpus for name, value in gpu.items() if "unknown" in value})
    detail = f"{len(gpus)} GPUs; unknown: {', '.join(unknown) or 'nothing'}"
    return Found(OK if gpus else ABSENT, detail, {"gpus": gpus})


def discovery(_: argparse.Namespace) -> Found:
    """The report that the control plane would be given."""
    discover = _module("nodeagent.host.discovery").discover
    slots = _module("nodeagent.topology.slots")
    library = _module("nodeagent.host.nvml")
    began = time.monotonic()
    report = slots.topology_report(discover(ROOT, library.Nvml()), "host")
    took = time.monotonic() - began
    written = report.to_json()
    size = len(json.dumps(written))
    type(report).from_json(written)
    detail = (
        f"{len(report.gpus)} GPUs, {len(report.slots)} slots, {len(report.nics)} NICs, "
        f"{len(report.nvmes)} NVMe in {took:.2f} s, {size} bytes"
    )
    return Found(OK if report.gpus else ABSENT, detail, {"report": written})


def observing(_: argparse.Namespace) -> Found:
    """Whether a second look sees what the discovery saw, and what it costs."""
    found = _module("nodeagent.host.discovery")
    slots = _module("nodeagent.topology.slots")
    library = _module("nodeagent.host.nvml")
    door = library.Nvml()
    report = slots.topology_report(found.discover(ROOT, door), "host")
    began = time.monotonic()
    sight = found.observe_devices(report, ROOT, door, None)
    took = time.monotonic() - began
    seen = [one.to_json() for one in sight.devices.gpus]
    told = [one.to_json() for one in sight.conditions]
    detail = f"{len(seen)} GPUs seen again in {took:.2f} s, {len(told)} conditions"
    return Found(OK if seen else ABSENT, detail, {"gpus": seen, "conditions": told})


def telemetry(_: argparse.Namespace) -> Found:
    """Three samples of every series."""
    sampling = _module("nodeagent.host.telemetry.gpu")
    library = _module("nodeagent.host.nvml")
    rounds, took = [], []
    try:
        with library.Nvml().session() as session:
            for _round in range(3):
                began = time.monotonic()
                rounds.append(sampling.sample_gpus(session))
                took.append(time.monotonic() - began)
                time.sleep(1)
    except library.NvmlUnavailable as error:
        return Found(ABSENT, str(error))
    last = rounds[-1]
    series = [{name: _fact(fact) for name, fact in sorted(gpu.values.items())} for gpu in last]
    known = sum("value" in value for gpu in series for value in gpu.values())
    count = sum(len(gpu) for gpu in series)
    detail = f"{known} of {count} series are known; a look takes {max(took) * 1000:.0f} ms at most"
    return Found(OK if series else ABSENT, detail, {"series": series, "seconds": took})


def kernel_log(_: argparse.Namespace) -> Found:
    """Whether errors of GPUs can be told from the kernel's log, and which there are."""
    xids = _module("nodeagent.host.cleanup.xids")
    path = ROOT / "dev/kmsg"
    try:
        records = xids.KernelLog(path).records()
    except OSError as error:
        return Found(ABSENT, f"{path} cannot be read: {error.strerror}")
    lines = [one.text[:200] for one in records if "NVRM: Xid" in one.text]
    return Found(OK, f"{len(records)} messages, {len(lines)} XIDs", {"xids": lines[:50]})


def cleanup_looks(_: argparse.Namespace) -> Found:
    """What the cleanup's checks of each GPU say now; nothing is reset."""
    care, gpus = _care()
    said: dict[str, Any] = {}
    for uuid in gpus:
        try:
            said[uuid] = {"processes": care.processes(uuid), "errors": care.counts(uuid)}
        except Exception as error:
            said[uuid] = {"unknown": f"{type(error).__name__}: {error}"[:_WORDS]}
    return Found(OK if said else ABSENT, f"{len(said)} GPUs were looked at", {"gpus": said})


def amd_looks(_: argparse.Namespace) -> Found:
    """What the kernel shows of each of AMD's GPUs, and whether a cleanup could be shown there."""
    card_of = _module("nodeagent.host.discovery.amd_card").cards
    tree = _module("nodeagent.host.discovery.sysfs").Tree(ROOT)
    bus = _module("nodeagent.host.discovery.bus").read_bus(tree)
    said: dict[str, Any] = {}
    for card in card_of(tree, bus):
        hive = card.hive(bus, {})
        facts = {
            "hive": hive,
            "cleanable": card.cleanable(hive),
            "resets": card.methods(),
            "memory_used": card.memory_used(),
            "errors": card.uncorrected(),
            "bad_pages": card.bad_pages(),
            "compute_ids": card.compute_ids(),
        }
        told = {name: _fact(fact) for name, fact in facts.items()}
        said[card.address] = {"driver": card.driver, "files": list(card.files()), **told}
    return Found(OK if said else ABSENT, f"{len(said)} GPUs of AMD's", {"gpus": said})


def scrub(options: argparse.Namespace) -> Found:
    """A reset of one GPU and a look at its memory, where that was allowed."""
    if not options.allow_reset:
        return Found(NOT_ASKED, "no GPU was named by --allow-reset; none is reset")
    care, gpus = _care()
    uuid: str = options.allow_reset
    if uuid not in gpus:
        return Found(FAILED, f"this host has no {uuid}")
    busy = care.processes(uuid)
    if busy:
        return Found(FAILED, f"it is in use by {', '.join(busy)}; it was not reset")
    bus = _module("nodeagent.host.cleanup.pci").PciBus(ROOT)
    began = time.monotonic()
    done = care.scrub(uuid, gpus[uuid], bus)
    took = round(time.monotonic() - began, 1)
    return Found(OK, done.detail, {"method": done.method, "seconds": took})


CHECKS: Final[Mapping[str, Callable[[argparse.Namespace], Found]]] = {
    "machine": machine,
    "driver": driver,
    "nvml": nvml,
    "discovery": discovery,
    "observing": observing,
    "telemetry": telemetry,
    "kernel_log": kernel_log,
    "cleanup_looks": cleanup_looks,
    "amd_looks": amd_looks,
    "scrub": scrub,
}
_SMI: Final = ("/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/bin/nvidia-smi")
_SMI_FIELDS: Final = (
    "index,name,pci.bus_id,driver_version,vbios_version,memory.total,mig.mode.current"
)


def _care() -> tuple[Any, dict[str, str]]:
    """The cleanup's GPU part, and the host's GPUs with their addresses. Raises Missing."""
    care = _module("nodeagent.host.cleanup.gpu")
    library = _module("nodeagent.host.nvml")
    tool = next((p for p in map(Path, _SMI) if p.exists()), Path(_SMI[0]))
    door = library.Nvml()
    try:
        with door.session() as session:
            records = library.read_gpus(session)
    except library.NvmlUnavailable as error:
        raise Missing(str(error)) from error
    gpus = {str(r.uuid.value): str(r.pci.value or "") for r in records if r.uuid.value}
    return care.GpuCare(door, tool, None, ""), gpus


def _identity(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("uuid", "pci", "name", "memory_bytes")}


def _fact(fact: Any) -> dict[str, Any]:
    """A reading as it is written: its value, or why there is none."""
    if fact.value is not None:
        value = fact.value if isinstance(fact.value, int | str | bool) else str(fact.value)
        return {"value": value}
    return {str(fact.presence.value): fact.reason}


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()[:2000]
    except OSError:
        return None


def _count(path: Path) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


def _run(argv: Sequence[str]) -> str:
    """What a program says, cut short; a refusal is an answer as well."""
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"[:_WORDS]
    return (ran.stdout or ran.stderr).strip()[:8000]


def one(name: str, options: argparse.Namespace) -> Found:
    """One check in this process; whatever it raises is its result."""
    try:
        return CHECKS[name](options)
    except Missing as missing:
        return Found(ABSENT, str(missing))
    except Exception as error:
        # One broken device, or a library of another version, must not end the report.
        return Found(FAILED, f"{type(error).__name__}: {error}"[:_WORDS])


_undead: list[subprocess.Popen[bytes]] = []


def apart(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One check in a process of its own, killed at its limit."""
    # As this process was started: without the installed packages where it has none.
    bare = ["-S"] if sys.flags.no_site else []
    argv = [sys.executable, *bare, "-P", "-m", "nodeagent.host.hardware", "--inside", name]
    argv += ["--allow-reset", options.allow_reset] if options.allow_reset else []
    began = time.monotonic()
    pipe = subprocess.PIPE
    child = subprocess.Popen(argv, stdout=pipe, stderr=pipe, env=_environment(options))
    try:
        told, said = child.communicate(timeout=options.limit)
    except subprocess.TimeoutExpired:
        child.kill()
        words = f"it did not end within {options.limit:g} s and was killed"
        try:
            child.communicate(timeout=_DIES_S)
        except subprocess.TimeoutExpired:
            # Whoever waits in the kernel outlives a kill; the other checks go on.
            _undead.append(child)
            words = f"{words}, of which process {child.pid} does not die"
        found = Found(TIMED_OUT, words).as_json()
    else:
        found = _answer(subprocess.CompletedProcess(argv, child.returncode, told, said))
    return {"check": name, **found, "seconds": round(time.monotonic() - began, 2)}


def _environment(options: argparse.Namespace) -> dict[str, str]:
    here = Path(__file__).resolve().parents[2]
    found = [str(here), *map(str, options.packages)]
    found += [str(one) for one in sorted(here.glob(".venv/lib/python3*/site-packages"))]
    return {**os.environ, "PYTHONPATH": ":".join(found)}


def _answer(ran: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(ran.stdout[-_MOST_BYTES:])
    except ValueError:
        said = ran.stderr.decode("utf-8", "replace").strip()[-_WORDS:]
        return Found(FAILED, f"it ended with {ran.returncode}: {said}").as_json()
    return told


def in_words(results: Sequence[Mapping[str, Any]]) -> str:
    """The report for people: one line a check, and what each has read."""
    lines = ["# Hardware check", "", "| check | result | in words | seconds |", "|---|---|---|---|"]
    for found in results:
        words = str(found["detail"]).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {found['check']} | {found['status']} | {words} | {found['seconds']} |")
    for found in results:
        if found["facts"]:
            body = json.dumps(found["facts"], indent=1, ensure_ascii=False)
            shown = body if len(body) < 20_000 else body[:20_000] + "\n… see report.json"
            lines += ["", f"## {found['check']}", "", "```json", shown, "```"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and write the report; 0 unless a check failed or hung."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("hardware-report"))
    parser.add_argument("--only", default="", help="names of checks, split by commas")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for each check")
    parser.add_argument("--packages", type=Path, action="append", default=[])
    parser.add_argument("--allow-reset", default="", metavar="UUID")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(one(options.inside, options).as_json()))
        return 0
    wanted = [name for name in options.only.split(",") if name] or list(CHECKS)
    strange = [name for name in wanted if name not in CHECKS]
    if strange:
        parser.error(f"there is no check {strange[0]}; there are {', '.join(CHECKS)}")
    results = []
    for name in wanted:
        results.append(apart(name, options))
        print(f"{name:14} {results[-1]['status']:10} {results[-1]['detail']}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "report.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "report.md").write_text(in_words(results))
    print(f"written: {options.out}/report.json and report.md")
    return int(any(found["status"] in (FAILED, TIMED_OUT) for found in results))


if __name__ == "__main__":
    sys.exit(main())
