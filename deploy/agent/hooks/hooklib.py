"""What do the reference hooks share: their input, their site's facts, their answer, and a BMC?

Standard library only; installed beside the hooks. `site.json` in the same folder says per node:

    {"gpu-17": {"redfish": "https://bmc-17/redfish/v1/Systems/1", "user": "operator",
                "password_file": "/etc/gpuaas-agent/bmc-17", "host": "10.0.0.17",
                "images": {"ubuntu-24.04": "http://images/ubuntu-24.04.iso"},
                "virtual_media": "https://bmc-17/redfish/v1/Managers/1/VirtualMedia/Cd",
                "seed_folder": "/var/lib/gpuaas-seeds", "cleaner": "root@10.0.9.17",
                "isolate": ["/usr/local/sbin/isolate-port", "gpu-17"],
                "bridge": "br-tenants",
                "dhcp_folder": "/var/lib/gpuaas-dhcp",
                "slot_addresses": ["10.0.1.100", "10.0.1.101"]}}
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

REFUSED, BUSY, MISSING = 10, 11, 12
SITE = Path(__file__).resolve().with_name("site.json")
_MOST_BYTES = 1024 * 1024


class HookFailed(Exception):
    """Something did not work. status: the exit status that says what it means."""

    def __init__(self, detail: str, status: int = 1) -> None:
        super().__init__(detail)
        self.status = status


def main(work: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> NoReturn:
    """Read the request and the node's facts, do the work, and answer."""
    try:
        told = json.loads(sys.stdin.read(_MOST_BYTES))
        site = json.loads(SITE.read_text())
        # A machine's hook is called without a node's name: a host has one entry then.
        node = told.get("node") or next(iter(site), "")
        if node not in site:
            raise HookFailed(f"{SITE.name} has no node {node}", MISSING)
        print(json.dumps(work(told, site[node])))
        sys.exit(0)
    except HookFailed as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)
    except (OSError, ValueError, KeyError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(MISSING)


def done(method: str, detail: str, **facts: object) -> dict[str, Any]:
    """The answer: how it was done, and what follows from it."""
    return {"method": method, "detail": detail, **facts}


def command(*argv: str, given: str = "", timeout_s: float = 60, any_status: bool = False) -> str:
    """Run a program without a shell; its output. Raises HookFailed, or FileNotFoundError."""
    try:
        ran = subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise HookFailed(f"{argv[0]} took too long", BUSY) from None
    if ran.returncode != 0 and not any_status:
        said = (ran.stderr or ran.stdout).strip()[-300:]
        raise HookFailed(f"{argv[0]} ended with {ran.returncode}: {said}", ran.returncode)
    return ran.stdout


class _Nowhere(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: whoever answers with one would be told the login."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


# Straight to the BMC: no proxy of the environment, and nowhere that its answer points to.
_STRAIGHT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Nowhere)


class Bmc:
    """A node's management controller, by Redfish."""

    def __init__(self, site: dict[str, Any]) -> None:
        password = Path(site["password_file"]).read_text().strip()
        pair = f"{site['user']}:{password}".encode()
        self._login = "Basic " + base64.b64encode(pair).decode()
        self._system = str(site["redfish"])

    def power_state(self) -> str:
        """On, Off, PoweringOn or PoweringOff."""
        return str(self.ask("GET", self._system).get("PowerState", "unknown"))

    def reset(self, kind: str, wanted: str, timeout_s: float = 240) -> None:
        """Change the power and wait until it is so. Raises HookFailed."""
        action = f"{self._system}/Actions/ComputerSystem.Reset"
        if self.power_state() != wanted:
            self.ask("POST", action, {"ResetType": kind})
        until = time.monotonic() + timeout_s
        while self.power_state() != wanted:
            if time.monotonic() > until:
                raise HookFailed(f"the power is not {wanted} after {timeout_s:g} seconds", BUSY)
            time.sleep(1)

    def boot_once(self, media: str, image: str) -> None:
        """Insert an image and boot from it the next time. Raises HookFailed."""
        self.ask("POST", f"{media}/Actions/VirtualMedia.InsertMedia", {"Image": image})
        once = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}
        self.ask("PATCH", self._system, {"Boot": once})

    def ask(self, method: str, address: str, body: object = None) -> dict[str, Any]:
        """One request. Raises HookFailed."""
        parts = urllib.parse.urlsplit(address)
        if parts.scheme != "https" and parts.hostname != "127.0.0.1":
            raise HookFailed("a BMC is spoken to by https only", MISSING)
        request = urllib.request.Request(address, method=method)
        request.add_header("Authorization", self._login)
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with _STRAIGHT.open(request, data, timeout=30) as answer:
                text = answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            if 300 <= error.code < 400:
                detail = f"{method} {parts.path}: it answers with {error.code}, to another address"
                raise HookFailed(f"{detail}, which is not followed", REFUSED) from error
            status = REFUSED if error.code in (400, 401, 403, 404, 405) else BUSY
            raise HookFailed(f"{method} {parts.path}: {error.code}", status) from error
        except OSError as error:
            raise HookFailed(f"{parts.hostname} does not answer: {error}", BUSY) from error
        found = json.loads(text) if text else {}
        return found if isinstance(found, dict) else {}
