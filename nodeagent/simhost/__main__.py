"""What can a person do to a simulated host: set faults, look, put a stray machine on it, reboot?

    python -m nodeagent.simhost fault HOST --set lie_cleanup=1 --set slow_s=3
    python -m nodeagent.simhost fault HOST --clear
    python -m nodeagent.simhost show HOST
    python -m nodeagent.simhost stray HOST --slots 3
    python -m nodeagent.simhost reboot HOST

HOST is a host's folder. All of it works while the fleet runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from nodeagent.simhost.devices import scratch_volume
from nodeagent.simhost.faults import FaultError, FaultMenu
from nodeagent.simhost.hardware import HardwareError, read_config, read_hardware
from nodeagent.simhost.state import SimVm, StateStore


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when done, 2 when it was refused."""
    options = _parser().parse_args(arguments)
    folder: Path = options.host
    try:
        config = read_config(folder)
        if options.command == "fault":
            print(json.dumps(_fault(FaultMenu(folder), options), indent=1))
        elif options.command == "show":
            state = StateStore(folder, config.name).state
            shown = {"faults": asdict(FaultMenu(folder).read()), "host": asdict(state)}
            print(json.dumps(shown, indent=1))
        elif options.command == "reboot":
            StateStore(folder, config.name).reboot()
        else:
            _stray(folder, [int(part) for part in options.slots.split(",")])
    except (FaultError, HardwareError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodeagent.simhost", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fault", "show", "stray", "reboot"):
        command = commands.add_parser(name)
        command.add_argument("host", type=Path, help="the host's folder")
        if name == "fault":
            command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
            command.add_argument("--clear", action="store_true", help="no faults any more")
        elif name == "stray":
            command.add_argument("--slots", default="0", help="slot numbers, split by commas")
    return parser


def _fault(menu: FaultMenu, options: argparse.Namespace) -> dict[str, object]:
    if options.clear:
        menu.clear()
    for setting in options.set:
        name, separator, value = setting.partition("=")
        if not separator:
            raise FaultError("a fault is set as NAME=VALUE")
        menu.set(name, value)
    return asdict(menu.read())


def _stray(folder: Path, slots: list[int]) -> None:
    """A machine that nobody asked for, as an administrator might start one by hand."""
    config = read_config(folder)
    report = read_hardware(folder, config)
    devices = [scratch_volume(index) for index in slots]
    devices[:0] = [slot.gpu_uuid for slot in report.slots if slot.index in slots and slot.gpu_uuid]
    store = StateStore(folder, config.name)
    name = f"stray-{len(store.state.vms)}"
    store.state.vms[name] = SimVm(
        name=name,
        allocation="",
        kind="stray",
        state="running",
        image="unknown",
        slots=slots,
        devices=devices,
        host="127.0.0.1",
        port=22,
    )
    store.save()


if __name__ == "__main__":
    sys.exit(main())
