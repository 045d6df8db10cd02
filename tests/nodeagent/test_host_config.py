"""Is the operator's file checked as a whole, and does every error name its setting?"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.config import ConfigError, DeviceKind, load_config, parse_config
from nodeagent.host.trust import trusted

ROOT = Path(__file__).resolve().parents[2]
GOOD: dict[str, Any] = {
    "agent": {"server": "https://control.example", "name": "host-1"},
    "vm": {"user": "gpuaas-vm"},
    "images": {"ubuntu-24.04": {"disk": "/images/ubuntu.qcow2"}},
    "hooks": {"network": {"path": "/hooks/network", "timeout_s": 30}},
}


def test_a_good_file_is_typed() -> None:
    config = parse_config(GOOD)
    assert config.images["ubuntu-24.04"].disk == Path("/images/ubuntu.qcow2")
    assert config.hooks["network"].timeout_s == 30.0
    assert config.vm.devices is DeviceKind.VFIO
    assert not config.vm.emulate


def test_addresses_to_keep_are_read_in_any_of_their_forms() -> None:
    config = parse_config(put("agent/keep", ["3B:00.0", "0000:5e:00.1"]))
    assert config.keep == {"0000:3b:00.0", "0000:5e:00.1"}
    assert parse_config(GOOD).keep == frozenset()


def test_the_example_in_the_package_is_a_good_file() -> None:
    config = load_config(ROOT / "deploy" / "agent" / "agent.toml")
    assert config.server.startswith("https://")
    assert set(config.hooks) == {"provision", "power", "network", "sanitise"}


def put(place: str, value: Any) -> dict[str, Any]:
    """The good file with one setting changed; None takes its whole table away."""
    raw = {name: dict(table) for name, table in GOOD.items()}
    *tables, name = place.split("/")
    table: dict[str, Any] = raw
    for one in tables:
        table = table.setdefault(one, {})
    if value is None:
        table.pop(name)
    else:
        table[name] = value
    return raw


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("agent/server", None, "agent.server is missing"),
        ("agent/server", "http://control.example", "agent.server must be https"),
        ("agent/server", "http://127.0.0.1.evil.example", "agent.server must be https"),
        ("agent/server", "http://localhost.evil.example", "agent.server must be https"),
        ("agent/server", "http://127.evil.example", "agent.server must be https"),
        ("agent/server", "control.example", "agent.server must be https"),
        ("agent/server", "https://", "agent.server must be https"),
        ("agent/server", "https://me:secret@control.example", "and no more"),
        ("agent/server", "https://control.example ", "and no more"),
        ("agent/server", "https://control.example?x=1", "and no more"),
        ("agent/server", "https://control.example:port", "agent.server is no address"),
        ("agent/server", "https://[2001:db8::1", "agent.server is no address"),
        ("agent/name", "", "agent.name"),
        ("agent/name", "gpu_17", "agent.name, 'gpu_17', must be"),
        ("agent/name", "gpu 17", "agent.name"),
        ("agent/name", "n" * 254, "agent.name"),
        ("agent/proxy", "proxy.example:3128", "agent.proxy must be"),
        ("agent/proxy", "socks5://proxy.example:1080", "agent.proxy must be"),
        ("agent/proxy", "http://me:secret@proxy.example:3128", "agent.proxy must be"),
        ("agent/ca_file", "ca.pem", "agent.ca_file must be an absolute path"),
        ("agent/surprise", 1, "agent.surprise is not known"),
        ("agent/keep", "0000:3b:00.0", "agent.keep must be a list of PCI addresses"),
        ("agent/keep", ["eth0"], "agent.keep must be a list of PCI addresses"),
        ("agent/keep", [59], "agent.keep must be a list of PCI addresses"),
        ("agent/virtual_functions", 1, "agent.virtual_functions must be of type bool"),
        ("agent/root", "relative", "agent.root must be an absolute path"),
        ("agent/baremetal", "yes", "agent.baremetal must be of type bool"),
        ("agent/baremetal", True, "needs the hooks provision, power, sanitise"),
        ("agent/replay_topology", "/sim", "vm.devices = stand_in"),
        ("surprise", {}, "surprise is not known"),
        ("agent", "text", "agent must be a table"),
        ("vm/devices", "usb", "vm.devices must be one of vfio, stand_in"),
        ("vm/devices", "stand_in", "needs vm.emulate"),
        ("vm/network", "loopback", "needs vm.emulate"),
        ("vm/user", None, "vm.user is missing"),
        ("vm/user", "", "vm.user is missing"),
        ("vm/uid_first", 999, "vm.uid_first must be 1000 or more"),
        ("vm/uid_count", 0, "vm.uid_count 1 to 4096"),
        ("vm/uid_first", 2**31 - 1, "must stay below"),
        ("vm/huge_page", -1, "vm.huge_page must be of type int"),
        ("vm/grace_s", "soon", "vm.grace_s must be of type float"),
        ("images/Bad Name", {"disk": "/x"}, "images.Bad Name"),
        ("images/ubuntu-24.04", {}, "needs either a disk or a kernel"),
        ("images/ubuntu-24.04", {"disk": "/x", "kernel": "/y"}, "either a disk or a kernel"),
        ("images/ubuntu-24.04", {"disk": "/x", "disk_format": "vmdk"}, "qcow2 or raw"),
        ("images/ubuntu-24.04", {"disk": "/x", "name": "other"}, "name is not known"),
        ("hooks/network", None, "needs [hooks.network]"),
        ("hooks/network", {"path": "/x", "timeout_s": 0}, "hooks.network.timeout_s"),
        ("hooks/network", {"path": "sh -c id"}, "hooks.network.path must be an absolute path"),
        ("hooks/shell", {"path": "/bin/sh"}, "hooks.shell is not known"),
        ("hooks/fabric", {"path": "/x", "timeout_s": 0}, "hooks.fabric.timeout_s"),
    ],
)
def test_an_error_names_the_setting(place: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(put(place, value))
    assert named in str(error.value)


@pytest.mark.parametrize(
    "server",
    [
        "https://control.example",
        "https://control.example:8443/",
        "HTTPS://Control.Example",
        "https://[2001:db8::1]:8443",
        "https://192.0.2.1",
        "http://127.0.0.1:8000",
        "http://127.1.2.3:8000",
        "http://localhost:8000",
        "http://[::1]:8000",
    ],
)
def test_a_control_plane_may_be_at_any_of_these(server: str) -> None:
    assert parse_config(put("agent/server", server)).server == server


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\0" * 40])
def test_an_authority_that_is_none_is_told_with_its_setting(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    config = parse_config(put("agent/ca_file", str(path)))
    with pytest.raises(ConfigError, match=r"agent\.ca_file"):
        trusted(config)


def test_without_one_the_systems_authorities_are_trusted_and_names_are_checked() -> None:
    context = trusted(parse_config(GOOD))
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) > 50


def test_a_missing_and_a_broken_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("[agent\n")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load_config(tmp_path / "broken.toml")
