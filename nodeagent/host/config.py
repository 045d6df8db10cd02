"""What has the operator decided about this host? One TOML file, checked as a whole.

Everything that may be executed, opened or handed to a machine is named here and nowhere else:
hooks, images and tools are looked up by name, and no name from the wire becomes a path.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nodeagent.protocol import MOST_BURN_IN_S, RELEASE_KINDS, TaskKind
from nodeagent.topology.pci import normal_address

CONFIG_PATH = Path("/etc/gpuaas-agent/agent.toml")
_BARE_HOOKS = ("provision", "power", "network", "sanitise")
_HOOK_NAMES = (*_BARE_HOOKS, "burn_in", "fabric")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PROXY = re.compile(r"https?://(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(:\d{1,5})?/?")
_IMAGE_NAME = re.compile(r"[a-z0-9][a-z0-9._:/-]{0,119}")
_MOST_HOOK_S = 7200
# As long as one task may ask for, and its margin.
_MOST_BURN_IN_HOOK_S = 2 * MOST_BURN_IN_S
# Below 1000 are the system's own users; above 31 bits tools disagree about what a number means.
_LEAST_UID, _MOST_UIDS, _BEYOND_UID = 1000, 4096, 2**31


class ConfigError(ValueError):
    """A setting that cannot be used. The text names it and says what would do."""


class DeviceKind(StrEnum):
    """What machines are given: the host's own devices, or files that stand in for them."""

    VFIO = "vfio"
    STAND_IN = "stand_in"


class NetworkKind(StrEnum):
    """How a machine gets its network: by the operator's hook, or forwarded on loopback."""

    HOOK = "hook"
    LOOPBACK = "loopback"


class Readiness(StrEnum):
    """When a machine counts as there: it runs, or an SSH server answers at its address."""

    RUNNING = "running"
    SSH = "ssh"


@dataclass(frozen=True)
class Hook:
    """An executable of the operator's. timeout_s: it is killed after that."""

    path: Path
    timeout_s: float = 300.0


@dataclass(frozen=True)
class Image:
    """What a machine boots from: a disk that is copied on write, or a kernel and its initramfs."""

    name: str
    disk: Path | None = None
    disk_format: str = "qcow2"
    kernel: Path | None = None
    initrd: Path | None = None
    append: str = "console=ttyS0"
    user: str = "ubuntu"


@dataclass(frozen=True)
class Tools:
    """The programs that are run, each by its full path and with a list of arguments."""

    qemu: Path = Path("/usr/bin/qemu-system-x86_64")
    qemu_img: Path = Path("/usr/bin/qemu-img")
    xorriso: Path = Path("/usr/bin/xorriso")
    nvme: Path = Path("/usr/sbin/nvme")
    nvidia_smi: Path = Path("/usr/bin/nvidia-smi")


@dataclass(frozen=True)
class VmConfig:
    """How machines are made.

    emulate: machines may run without KVM (tests and demonstrations; far too slow for tenants).
    overhead_bytes: kept for the host of each slot's memory. huge_page: bytes of the host's huge
    pages that back a machine's memory, 0 for ordinary pages. user: whose groups machines have;
    empty lets them run as the helper's own user. uid_first, uid_count: the users of which each
    machine gets one for itself. grace_s: how long a machine may shut down by itself.
    """

    emulate: bool = False
    devices: DeviceKind = DeviceKind.VFIO
    network: NetworkKind = NetworkKind.HOOK
    ready: Readiness = Readiness.SSH
    ready_timeout_s: float = 600.0
    grace_s: float = 30.0
    user: str = ""
    uid_first: int = 70_000
    uid_count: int = 256
    huge_page: int = 0
    overhead_bytes: int = 4 * 1024**3
    firmware: Path | None = None
    disk_bytes: int = 100 * 1024**3
    emulated_memory_bytes: int = 192 * 1024**2


@dataclass(frozen=True)
class HostConfig:
    """Everything the operator decided. Paths are absolute.

    ca_file: who may vouch for the control plane; None is whom the system and Mozilla's list trust.
    control_keys: whose tasks the helper takes, and for which node; only root may write it.
    proxy: the way to the control plane, if any; proxies of the environment are not used.
    metrics_address, metrics_port: where Prometheus reads this host; port 0 is nowhere. The port is
    the DCGM exporter's: where that runs too, one of them needs another.
    keep: PCI addresses of NICs and NVMes that no slot gets. virtual_functions: hand out those of a
    NIC that has some, in its place.
    """

    server: str
    name: str
    ca_file: Path | None = None
    proxy: str = ""
    agent_folder: Path = Path("/var/lib/gpuaas-agent")
    helper_folder: Path = Path("/var/lib/gpuaas-helper")
    run_folder: Path = Path("/run/gpuaas-agent")
    agent_user: str = "gpuaas-agent"
    intended_use: str | None = None
    control_keys: Path = Path("/etc/gpuaas-agent/control-keys.toml")
    root: Path = Path("/")
    replay_topology: Path | None = None
    baremetal: bool = False
    metrics_address: str = "127.0.0.1"
    metrics_port: int = 9400
    keep: frozenset[str] = frozenset()
    virtual_functions: bool = False
    vm: VmConfig = field(default_factory=VmConfig)
    tools: Tools = field(default_factory=Tools)
    images: Mapping[str, Image] = field(default_factory=dict)
    hooks: Mapping[str, Hook] = field(default_factory=dict)

    @property
    def socket_path(self) -> Path:
        """Where the helper listens."""
        return self.run_folder / "helper.sock"

    @property
    def kinds(self) -> frozenset[TaskKind]:
        """The kinds of tasks that need the helper and that this host is set up for.

        Whatever was taken out of the configuration since, what is there can be given back.
        """
        found = set(RELEASE_KINDS)
        if self.images:
            found.add(TaskKind.VM_PROVISION)
        if self.baremetal:
            found.add(TaskKind.BAREMETAL_PROVISION)
        if "burn_in" in self.hooks:
            found.add(TaskKind.BURN_IN)
        return frozenset(found)


def load_config(path: Path = CONFIG_PATH) -> HostConfig:
    """The operator's file. Raises ConfigError, naming what is wrong."""
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing; see docs/agent-guide.md for an example") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
    return parse_config(raw)


def parse_config(raw: Mapping[str, Any]) -> HostConfig:
    """A parsed file. Raises ConfigError."""
    sections = {"agent", "vm", "tools", "images", "hooks"}
    _only(raw, sections, "")
    agent = _typed(_table(raw, "agent"), HostConfig, "agent", without=sections - {"agent"})
    if "server" not in agent:
        raise ConfigError("agent.server is missing: the control plane's address")
    agent.setdefault("name", socket.gethostname())
    vm = VmConfig(**_typed(_table(raw, "vm"), VmConfig, "vm"))
    images = _table(raw, "images")
    config = HostConfig(
        **agent,
        vm=vm,
        tools=Tools(**_typed(_table(raw, "tools"), Tools, "tools")),
        images={name: _image(name, _table(images, name)) for name in images},
        hooks=_hooks(_table(raw, "hooks")),
    )
    _check(config)
    return config


def _check(config: HostConfig) -> None:
    vm = config.vm
    if not 0 <= config.metrics_port <= 65535:
        raise ConfigError("agent.metrics_port must be 0 (nowhere) to 65535")
    _check_server(config.server)
    if config.proxy and not _PROXY.fullmatch(config.proxy):
        raise ConfigError("agent.proxy must be http://HOST:PORT or https://HOST:PORT")
    if not _HOST_NAME.fullmatch(config.name):
        raise ConfigError(
            f"agent.name, {config.name!r}, must be letters, digits, dots and hyphens, at most 253: "
            "set it, since it is this host's own name by default"
        )
    if vm.devices is DeviceKind.STAND_IN and not vm.emulate:
        raise ConfigError("vm.devices = stand_in hands out no real device: it needs vm.emulate")
    if vm.network is NetworkKind.LOOPBACK and not vm.emulate:
        raise ConfigError("vm.network = loopback serves nobody: it needs vm.emulate")
    if config.replay_topology is not None and vm.devices is not DeviceKind.STAND_IN:
        raise ConfigError(
            "agent.replay_topology describes no devices of this host: it needs "
            "vm.devices = stand_in"
        )
    if vm.network is NetworkKind.HOOK and config.images and "network" not in config.hooks:
        raise ConfigError("vm.network = hook needs [hooks.network]")
    if config.baremetal:
        missing = [name for name in _BARE_HOOKS if name not in config.hooks]
        if missing:
            raise ConfigError(f"agent.baremetal needs the hooks {', '.join(missing)}")
    if config.images and not vm.user and not vm.emulate:
        raise ConfigError("vm.user is missing: a tenant's machine must not run as root")
    if not (vm.uid_first >= _LEAST_UID and 1 <= vm.uid_count <= _MOST_UIDS):
        raise ConfigError(
            f"vm.uid_first must be {_LEAST_UID} or more and vm.uid_count 1 to {_MOST_UIDS}: "
            "machines' users must be nobody else's"
        )
    if vm.uid_first + vm.uid_count > _BEYOND_UID:
        raise ConfigError(f"vm.uid_first + vm.uid_count must stay below {_BEYOND_UID}")


def _check_server(server: str) -> None:
    try:
        parts = urlsplit(server)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"agent.server is no address: {error}") from error
    if parts.username or parts.query or parts.fragment or server != server.strip():
        raise ConfigError("agent.server must be https://HOST[:PORT] and no more")
    if parts.scheme == "https" and host:
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if parts.scheme != "http" or not loopback:
        raise ConfigError("agent.server must be https, or http on loopback")


def _image(name: str, raw: Mapping[str, Any]) -> Image:
    where = f"images.{name}"
    if not _IMAGE_NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name has lower-case letters, digits and . _ : / -")
    image = Image(name, **_typed(raw, Image, where, without={"name"}))
    if (image.disk is None) == (image.kernel is None):
        raise ConfigError(f"{where} needs either a disk or a kernel")
    if image.disk_format not in ("qcow2", "raw"):
        raise ConfigError(f"{where}.disk_format must be qcow2 or raw")
    return image


def _hooks(raw: Mapping[str, Any]) -> dict[str, Hook]:
    _only(raw, set(_HOOK_NAMES), "hooks")
    hooks = {}
    for name in raw:
        given, most = _table(raw, name), _MOST_HOOK_S
        if name == "burn_in":
            # Each burn-in has a limit of its own: a smaller one here has to be meant.
            most = _MOST_BURN_IN_HOOK_S
            given = {"timeout_s": most, **given}
        hook = hooks[name] = Hook(**_typed(given, Hook, f"hooks.{name}"))
        if not 0 < hook.timeout_s <= most:
            raise ConfigError(f"hooks.{name}.timeout_s must be above 0 and at most {most}")
    return hooks


def _table(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a table")
    return value


def _only(raw: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in raw:
        if name not in known:
            place = f"{where}.{name}" if where else name
            raise ConfigError(f"{place} is not known here; known: {', '.join(sorted(known))}")


def _typed(
    raw: Mapping[str, Any], kind: Any, where: str, without: Collection[str] = ()
) -> dict[str, Any]:
    """The table's values in the types of the dataclass' fields."""
    known = {one.name: str(one.type) for one in fields(kind) if one.name not in without}
    _only(raw, set(known), where)
    return {name: _value(value, known[name], f"{where}.{name}") for name, value in raw.items()}


def _value(value: Any, kind: str, where: str) -> Any:
    kind = kind.removesuffix(" | None")
    choices: dict[str, type[StrEnum]] = {
        "DeviceKind": DeviceKind,
        "NetworkKind": NetworkKind,
        "Readiness": Readiness,
    }
    if kind in choices:
        if value not in list(choices[kind]):
            raise ConfigError(f"{where} must be one of {', '.join(choices[kind])}")
        return choices[kind](value)
    if kind == "Path":
        if not isinstance(value, str) or not value.startswith("/"):
            raise ConfigError(f"{where} must be an absolute path")
        return Path(value)
    if kind == "frozenset[str]":
        return _addresses(value, where)
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str) and value.isprintable():
        return value
    raise ConfigError(f"{where} must be of type {kind}")


def _addresses(value: Any, where: str) -> frozenset[str]:
    named = value if isinstance(value, list) else [None]
    found = {normal_address(one) if isinstance(one, str) else None for one in named}
    known = frozenset(one for one in found if one is not None)
    if None in found:
        raise ConfigError(f"{where} must be a list of PCI addresses, such as 0000:3b:00.0")
    return known
