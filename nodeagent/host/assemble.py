"""How are the agent and the helper of this host put together from its configuration?"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx

from nodeagent.client import ControlPlane
from nodeagent.clock import Clock, SystemClock
from nodeagent.daemon import Agent, Pace
from nodeagent.host.backend import HostBackend, read_boot_id
from nodeagent.host.cleanup.amd import AmdCare
from nodeagent.host.cleanup.gpu import AS_NEW, GpuCare
from nodeagent.host.cleanup.nvme import NvmeEraser
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.stand_in import StandInDevices
from nodeagent.host.cleanup.steps import Before, Devices, Done, device_step
from nodeagent.host.cleanup.vfio import VfioDevices, wipe_disks
from nodeagent.host.cleanup.xids import KernelLog, XidWatch
from nodeagent.host.config import DeviceKind, HostConfig
from nodeagent.host.discovery import see_as_root
from nodeagent.host.helper.client import Helper
from nodeagent.host.helper.grants import Grants
from nodeagent.host.helper.keys import read_control_keys
from nodeagent.host.helper.server import HelperServer
from nodeagent.host.helper.verbs import Verbs
from nodeagent.host.hooks import Hooks
from nodeagent.host.nvml import Nvml
from nodeagent.host.records import Records
from nodeagent.host.runtime.baremetal import BareHost
from nodeagent.host.runtime.burning import BurnIn
from nodeagent.host.runtime.kvm import Probe, probe
from nodeagent.host.runtime.machines import Machines
from nodeagent.host.runtime.owners import Owners
from nodeagent.host.runtime.returning import Returning
from nodeagent.host.telemetry import HostTelemetry, MetricsEndpoint
from nodeagent.host.telemetry.exposition import render
from nodeagent.host.wiring import wiring
from nodeagent.identity import AgentHome, unusable
from nodeagent.protocol import CleanupStep, SlotDevices, TopologyReport, WireError
from nodeagent.telemetry.sending import Feed

log = logging.getLogger("nodeagent.host")


def make_agent(
    config: HostConfig,
    transport: httpx.AsyncBaseTransport,
    clock: Clock,
    *,
    pace: Pace | None = None,
    nvml: Nvml | None = None,
    telemetry: Feed | None = None,
) -> Agent:
    """The unprivileged half: joins, leases, reports, and asks the helper.

    nvml: the process's one door, which whoever measures has to share. Raises HomeUnusable.
    """
    nvml = nvml or Nvml()
    try:
        # Before the folder is written to: the journal is read by the agent itself.
        home = AgentHome(config.agent_folder)
        return _assembled(config, transport, clock, home, pace, nvml, telemetry)
    except OSError as error:
        raise unusable(config.agent_folder, error) from error


def _assembled(
    config: HostConfig,
    transport: httpx.AsyncBaseTransport,
    clock: Clock,
    home: AgentHome,
    pace: Pace | None,
    nvml: Nvml,
    telemetry: Feed | None,
) -> Agent:
    ask_root = Helper(config.socket_path).survey
    own = wiring(config, nvml, config.agent_folder, ask_root=ask_root)
    backend = HostBackend(config, clock, own, nvml, lambda: home.identity)
    http = httpx.AsyncClient(transport=transport, timeout=30.0, trust_env=False)
    control = ControlPlane(http, config.server, home, clock)
    return Agent(home, backend, control, clock, pace=pace, telemetry=telemetry)


@asynccontextmanager
async def hands_off(
    nvml: Nvml, settled: Callable[[], bool], every_s: float = 1.0
) -> AsyncIterator[None]:
    """No handle of the agent's on any GPU until the helper says that everything is settled.

    After the host's own restart the helper gives machines their devices again, and a driver does
    not let go of a GPU that anybody has open.
    """
    with ExitStack() as held:
        held.enter_context(nvml.released())

        async def wait() -> None:
            while not await asyncio.to_thread(settled):
                await asyncio.sleep(every_s)
            held.close()

        waiting = asyncio.create_task(wait())
        try:
            yield
        finally:
            waiting.cancel()


@contextmanager
def measuring(config: HostConfig, nvml: Nvml, clock: Clock) -> Iterator[HostTelemetry]:
    """The host is measured, and Prometheus may read it, while inside."""
    telemetry = HostTelemetry(nvml, clock, config.root)
    endpoint = _endpoint(config, telemetry, clock)
    telemetry.start()
    try:
        yield telemetry
    finally:
        telemetry.stop()
        if endpoint is not None:
            endpoint.stop()


def _endpoint(config: HostConfig, telemetry: HostTelemetry, clock: Clock) -> MetricsEndpoint | None:
    if not config.metrics_port:
        return None
    try:
        endpoint = MetricsEndpoint(
            lambda: render(telemetry.latest(), config.name, clock.now()),
            address=config.metrics_address,
            port=config.metrics_port,
        )
    except OSError as error:
        # Work must not wait for a port that perhaps the DCGM exporter has.
        log.warning("no metrics on port %s: %s", config.metrics_port, error)
        return None
    endpoint.start()
    return endpoint


def make_helper(config: HostConfig) -> HelperServer:
    """The privileged half, listening. What the host's restart has ended comes back as it serves."""
    nvml, boot = Nvml(), read_boot_id(config.root)
    report = _remembered(wiring(config, nvml, config.helper_folder).read)
    hooks = Hooks(config.hooks)
    devices = _devices(config, report, nvml, boot)
    accelerated, runtime = choose_runtime(config)
    owners = Owners(config.vm)
    burning = BurnIn(config.name, hooks, report, config.helper_folder / "load.json", boot)
    burning.recover()
    clock = SystemClock()
    grants = Grants(
        lambda: read_control_keys(config.control_keys),
        config.helper_folder / "grants.json",
        boot,
        clock,
        config.kinds,
    )
    machines = Machines(config, report, devices, hooks, owners, accelerated)
    records = Records(config.helper_folder / "tenancies")
    verbs = Verbs(
        records=records,
        report=report,
        machines=machines,
        bare=BareHost(config.name, hooks),
        devices=devices,
        runtime=runtime,
        boot=boot,
        clock=clock,
        owners=owners,
        burning=burning,
        grants=grants,
        survey=lambda: see_as_root(config.root),
        returning=Returning(records, machines, runtime, boot),
    )
    why = grants.usable()
    if why:
        log.error("no task is taken: %s", why)
    allowed, group = {os.geteuid()}, -1
    if config.agent_user:
        try:
            entry = pwd.getpwnam(config.agent_user)
            allowed.add(entry.pw_uid)
            group = entry.pw_gid
        except KeyError:
            log.warning("user %s does not exist; only this user may ask", config.agent_user)
    return HelperServer(config.socket_path, verbs, allowed, group)


def choose_runtime(config: HostConfig) -> tuple[bool, Probe]:
    """Whether KVM works, and what machines run on; emulation only where it is allowed."""
    if not config.images:
        return False, Probe(False, "no image is configured")
    kvm = probe(config.tools.qemu, "kvm", config.vm.user)
    if kvm.works or not config.vm.emulate:
        return kvm.works, kvm
    emulated = probe(config.tools.qemu, "tcg", config.vm.user)
    return False, Probe(emulated.works, f"{emulated.detail}, emulated; {kvm.detail}"[:900])


def clean_here(config: HostConfig, told: Any) -> Done:
    """One cleanup step on this host's own devices, as a cleaning system does it for a whole host.

    Raises WireError when what is told is no step, StepFailed when it was not done.
    """
    if not isinstance(told, dict) or told.get("action") not in list(CleanupStep):
        raise WireError("/action", "unknown_value", "not a cleanup step")
    step, slot = CleanupStep(told["action"]), SlotDevices.from_json(told.get("slot"), "/slot")
    nvml = Nvml()
    report = wiring(config, nvml, config.helper_folder).read()
    if step is CleanupStep.OS_WIPED:
        return wipe_disks(report, PciBus(config.root), NvmeEraser(config.tools.nvme))
    boot = read_boot_id(config.root)
    devices = _devices(config, lambda: report, nvml, boot)
    # It was started for this cleanup: everything in its log is of the time since the claim. How a
    # whole host's GPUs were set when it was handed over nobody has seen but here, as they come.
    return device_step(devices, step, slot, Before(boot, 0, AS_NEW, whole_host=True))


def _devices(
    config: HostConfig, report: Callable[[], TopologyReport], nvml: Nvml, boot: str
) -> Devices:
    if config.vm.devices is DeviceKind.STAND_IN:
        return StandInDevices(config.helper_folder / "stand-ins")
    kernel_log, bus = KernelLog(config.root / "dev/kmsg"), PciBus(config.root)
    watch = XidWatch(kernel_log, boot, config.helper_folder / "xids.json")
    gpus = GpuCare(nvml, config.tools.nvidia_smi, watch, boot)
    amd = AmdCare(config.root, bus, kernel_log, report)
    eraser = NvmeEraser(config.tools.nvme)
    return VfioDevices(config.root, report, gpus, eraser, bus, amd)


def _remembered(read: Callable[[], TopologyReport]) -> Callable[[], TopologyReport]:
    """Read once. A GPU that a machine has cannot be asked by its driver any more."""
    found: list[TopologyReport] = []
    turn = threading.Lock()

    def report() -> TopologyReport:
        with turn:
            if not found:
                found.append(read())
            return found[0]

    return report
