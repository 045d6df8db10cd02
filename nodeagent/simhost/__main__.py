"""What can a person do to a simulated host: set faults, look, change cards, reboot it?

    python -m nodeagent.simhost fault HOST --set lie_cleanup=1 --set slow_s=3
    python -m nodeagent.simhost fault HOST --clear
    python -m nodeagent.simhost show HOST
    python -m nodeagent.simhost stray HOST --slots 3
    python -m nodeagent.simhost reboot HOST
    python -m nodeagent.simhost card HOST --slot 3 --uuid GPU-new
    python -m nodeagent.simhost card HOST --slot 3 --gone
    python -m nodeagent.simhost card HOST --slot 3 --at 0000:77:00.0
    python -m nodeagent.simhost card HOST --slot 3 --back
    python -m nodeagent.simhost rename HOST --to other-name

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
from nodeagent.simhost.hardware import (
    HardwareError,
    change_card,
    read_config,
    read_hardware,
    rename_host,
    restore_card,
)
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
        elif options.command == "rename":
            rename_host(folder, options.to)
        elif options.command == "card":
            _card(folder, options)
        else:
            _stray(folder, [int(part) for part in options.slots.split(",")])
    except (FaultError, HardwareError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodeagent.simhost", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fault", "show", "stray", "reboot", "card", "rename"):
        command = commands.add_parser(name)
        command.add_argument("host", type=Path, help="the host's folder")
        if name == "fault":
            command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
            command.add_argument("--clear", action="store_true", help="no faults any more")
        elif name == "rename":
            command.add_argument("--to", required=True, help="the name that it tells from now on")
        elif name == "card":
            command.add_argument("--slot", type=int, required=True, help="the GPU in its file")
            command.add_argument("--uuid", help="another card's; empty: it cannot say who it is")
            command.add_argument("--at", default="", help="its PCI address now")
            command.add_argument("--gone", action="store_true", help="no card is there any more")
            command.add_argument("--back", action="store_true", help="the file's own card")
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


def _card(folder: Path, options: argparse.Namespace) -> None:
    """Somebody opens the host. What it has is told by its next discovery."""
    config = read_config(folder)
    if options.back:
        restore_card(folder, options.slot)
    elif options.gone:
        change_card(folder, options.slot, uuid=None)
    else:
        told = {gpu.index: gpu.uuid for gpu in read_hardware(folder, config).gpus}
        own = config.cards.get(str(options.slot), told.get(options.slot))
        uuid = own if options.uuid is None else options.uuid
        change_card(folder, options.slot, uuid=uuid, pci=options.at)


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
