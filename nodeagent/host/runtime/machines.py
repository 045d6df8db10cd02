"""How does a claim's machine come to be, stay known, and end with everything that was its own?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nodeagent.backend import BackendError
from nodeagent.files import sync_folder
from nodeagent.host.cleanup.steps import Devices, Done, StepFailed
from nodeagent.host.commands import CommandError, run
from nodeagent.host.config import HostConfig, Image, NetworkKind
from nodeagent.host.hooks import Hooks
from nodeagent.host.qmp import QmpError
from nodeagent.host.records import NO_UID, Tenancy
from nodeagent.host.runtime import process
from nodeagent.host.runtime.owners import Owner, Owners, give
from nodeagent.host.runtime.seed import SeedFailed, seed_files, write_seed
from nodeagent.host.runtime.spec import (
    Network,
    SpecError,
    StandIn,
    VmSpec,
    cpu_pins,
    loopback_address,
    mac_address,
    qemu_argv,
    start_limit_s,
    vm_spec,
    vm_uuid,
)
from nodeagent.protocol import FailureCode, TopologyReport, VmState

_STATES = {"running": VmState.RUNNING, "prelaunch": VmState.DEFINED, "unknown": VmState.UNKNOWN}
_DISK_S = 120.0
_DISK, _SEED = "disk.qcow2", "seed.iso"


class Machines:
    """The machines of this host. accelerated: whether KVM works here."""

    def __init__(
        self,
        config: HostConfig,
        report: Callable[[], TopologyReport],
        devices: Devices,
        hooks: Hooks,
        owners: Owners,
        accelerated: bool,
    ) -> None:
        self._config = config
        self._report = report
        self._devices = devices
        self._hooks = hooks
        self._owners = owners
        self._accelerated = accelerated

    @property
    def mark(self) -> str:
        """What is among the arguments of every machine that was started here."""
        return str(self._config.run_folder / "machines") + "/"

    def image(self, name: str) -> Image:
        """The image of this name. Raises BackendError: no name from the wire is a path."""
        image = self._config.images.get(name)
        if image is None:
            raise BackendError("image_unknown", f"this host has no image {name}", retryable=False)
        return image

    def prepare(self, tenancy: Tenancy, keep: Callable[[Tenancy], None]) -> Tenancy:
        """Devices, their fabric, disk, seed and network; gives the record with what came of it.

        keep: puts the record on disk, with the GPUs that this is about to bind: one that is bound
        and in no record was somebody else's. Raises BackendError.
        """
        image = self.image(tenancy.image)
        folder = self._folder(tenancy.claim)
        try:
            _reachable(folder)
            _reclaim(folder)
            owner = self._owner(tenancy)
            given = self._devices.vet(tenancy.slots, tenancy.given, self._process(tenancy))
            if given != tenancy.given:
                tenancy = replace(tenancy, given=given)
                keep(tenancy)
            self._attached(tenancy, owner)
            self._join_fabric("activate", tenancy)
            self._make_disk(image, folder / _DISK)
            files = seed_files(tenancy.claim, tenancy.hostname, image.user, tenancy.ssh_keys)
            write_seed(folder / _SEED, files, self._config.tools.xorriso)
            _give_disks(folder, owner)
        except (StepFailed, SeedFailed) as error:
            raise _broken("attach_failed", str(error)) from error
        except OSError as error:
            raise _broken("attach_failed", f"{folder.name}: {error.strerror}") from error
        return self._networked(tenancy, os.geteuid() if owner is None else owner.uid)

    def start(self, tenancy: Tenancy) -> None:
        """Start the machine, or let one go on that was started and not let run.

        Raises BackendError.
        """
        folder = self._run(tenancy.claim)
        try:
            _reachable(folder)
            owner = self._owner(tenancy)
            if owner is not None:
                # For its sockets, which only it and root reach.
                os.chown(folder, owner.uid, owner.gid)
            spec = self._spec(tenancy, owner)
            machine = process.find(spec.uuid, self.mark, tenancy.uid)
            if machine is None:
                argv = qemu_argv(spec, self._config)
                machine = process.start(
                    argv, spec.uuid, spec.qmp_socket, owner, start_limit_s(spec)
                )
            process.go(machine, spec.qmp_socket, cpu_pins(spec))
        except (process.StartFailed, QmpError, SpecError, StepFailed, OSError) as error:
            detail = error.strerror if isinstance(error, OSError) else str(error)
            raise _broken("start_failed", f"the machine did not start: {detail}") from error

    def state(self, tenancy: Tenancy) -> VmState:
        """What the machine does now."""
        if process.find(vm_uuid(tenancy.claim), self.mark, tenancy.uid) is None:
            return VmState.STOPPED if tenancy.started else VmState.DEFINED
        seen = process.state(self._run(tenancy.claim) / "qmp.sock")
        return _STATES.get(seen, VmState.STOPPED)

    def end(self, claim: str, tenancy: Tenancy | None) -> Done:
        """End a claim's machine and delete its disks and its network. Raises StepFailed."""
        uuid, sockets = vm_uuid(claim), self._run(claim)
        found = process.find(uuid, self.mark)
        method, detail = "process_list", "there was no machine of this claim"
        if found is not None:
            try:
                how = process.end(found, sockets / "qmp.sock", self._config.vm.grace_s)
            except process.StartFailed as error:
                raise StepFailed(str(error)) from error
            method, detail = how, f"process {found.pid} has ended"
        if process.find(uuid, self.mark) is not None:
            raise StepFailed("a machine with this claim's UUID is still there")
        if tenancy is not None and tenancy.uid != NO_UID:
            left = process.end_user(tenancy.uid)
            if left:
                raise StepFailed(f"processes of the machine's user do not end: {left}")
            detail += f"; nothing runs as its user {tenancy.uid}"
        if tenancy is not None:
            try:
                self._join_fabric("deactivate", tenancy)
            except BackendError as error:
                raise StepFailed(f"its GPUs' fabric was not taken back: {error.detail}") from error
        self._end_network(claim, tenancy)
        for folder in (sockets, self._folder(claim)):
            if folder.exists():
                shutil.rmtree(folder)
                sync_folder(folder.parent)
        return Done(method, f"{detail}; its disks are deleted")

    def is_there(self, claim: str) -> bool:
        """Whether the claim's machine has a process."""
        return process.find(vm_uuid(claim), self.mark) is not None

    def _owner(self, tenancy: Tenancy) -> Owner | None:
        """Whom its machine runs as. Raises StepFailed."""
        try:
            return self._owners.of(tenancy.uid)
        except KeyError:
            raise StepFailed(f"there is no user {self._config.vm.user}") from None

    def _spec(self, tenancy: Tenancy, owner: Owner | None) -> VmSpec:
        # A machine that was made before is made of the same again, also when a test's host says
        # that a device has moved: the addresses are looked up anew.
        return vm_spec(
            tenancy.claim,
            tenancy.slots,
            self._report(),
            self._config,
            image=self.image(tenancy.image),
            folder=self._folder(tenancy.claim),
            run=self._run(tenancy.claim),
            network=self._network(tenancy),
            stand_ins=self._attached(tenancy, owner),
            accelerated=self._accelerated,
        )

    def _attached(self, tenancy: Tenancy, owner: Owner | None) -> tuple[StandIn, ...]:
        machine = self._process(tenancy)
        return self._devices.attach(tenancy.slots, owner, tenancy.given, machine)

    def _process(self, tenancy: Tenancy) -> int | None:
        found = process.find(vm_uuid(tenancy.claim), self.mark, tenancy.uid)
        return None if found is None else found.pid

    def _network(self, tenancy: Tenancy) -> Network:
        mac = mac_address(tenancy.claim)
        if self._config.vm.network is NetworkKind.LOOPBACK:
            return Network(mac, loopback=(tenancy.host, tenancy.port))
        return Network(mac, tap=tenancy.tap)

    def _networked(self, tenancy: Tenancy, uid: int) -> Tenancy:
        if self._config.vm.network is NetworkKind.LOOPBACK:
            host, port = loopback_address(tenancy.claim, self.mark)
            return replace(tenancy, host=host, port=port)
        answer = self._hooks.call(
            "network",
            "attach",
            claim=tenancy.claim,
            hostname=tenancy.hostname,
            mac=mac_address(tenancy.claim),
            slots=sorted(tenancy.indexes),
            uid=uid,
        )
        return replace(tenancy, tap=answer.tap(), host=answer.host(), port=answer.port())

    def _end_network(self, claim: str, tenancy: Tenancy | None) -> None:
        if tenancy is None or self._config.vm.network is NetworkKind.LOOPBACK:
            return
        try:
            self._hooks.call("network", "detach", claim=claim, tap=tenancy.tap)
        except BackendError as error:
            raise StepFailed(f"the network was not taken back: {error.detail}") from error

    def _join_fabric(self, action: str, tenancy: Tenancy) -> None:
        """Tell the operator's hook, if there is one, which GPUs are joined. Raises BackendError."""
        if self._hooks.path("fabric") is None:
            return
        places = {gpu.uuid: gpu.pci for gpu in self._report().gpus}
        gpus = [
            {"uuid": slot.gpu_uuid, "pci": places.get(slot.gpu_uuid), "slot": slot.slot_index}
            for slot in sorted(tenancy.slots, key=lambda slot: slot.slot_index)
        ]
        self._hooks.call("fabric", action, claim=tenancy.claim, gpus=gpus)

    def _make_disk(self, image: Image, target: Path) -> None:
        if image.disk is None or target.exists():
            return
        made = target.with_suffix(".new")
        made.unlink(missing_ok=True)
        argv = [str(self._config.tools.qemu_img), "create", "-q", "-f", "qcow2"]
        argv += ["-b", str(image.disk), "-F", image.disk_format, str(made)]
        argv += [str(self._config.vm.disk_bytes)]
        try:
            ran = run(argv, timeout_s=_DISK_S)
        except CommandError as error:
            raise SeedFailed(f"qemu-img: {error.detail}") from error
        if ran.status != 0:
            raise SeedFailed(f"qemu-img ended with {ran.status}: {ran.complaint}")
        os.replace(made, target)

    def _folder(self, claim: str) -> Path:
        return self._config.helper_folder / "machines" / claim

    def _run(self, claim: str) -> Path:
        return self._config.run_folder / "machines" / claim


def _reachable(folder: Path) -> None:
    """Make a folder for a machine's user, who may pass its parents and list none of them."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.parent.chmod(0o711)


def _reclaim(folder: Path) -> None:
    """Nobody but this process puts anything there, also where a machine's user once might."""
    os.chown(folder, os.geteuid(), -1)
    folder.chmod(0o711)


def _give_disks(folder: Path, owner: Owner | None) -> None:
    """The disks, and not their folder: whoever may write there chooses what root touches.

    Raises StepFailed.
    """
    for name in (_DISK, _SEED):
        if not os.path.lexists(folder / name):
            continue
        try:
            give(folder / name, owner)
        except OSError as error:
            raise StepFailed(f"{name} is not a plain file of its own: {error.strerror}") from error


def _broken(code: str, detail: str) -> BackendError:
    return BackendError(code, detail or FailureCode.BACKEND_ERROR.value, retryable=True)
