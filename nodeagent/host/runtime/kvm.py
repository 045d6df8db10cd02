"""Can this host run machines, and how fast? Asked by booting one, not by looking for a file.

A boot sector of four instructions ends QEMU with a status that nothing else gives: so the guest's
own code has run. /dev/kvm may exist and not work.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.commands import CommandError, run
from nodeagent.host.runtime.owners import account_owner

# mov al, 0x2a; out 0xf4, al; hlt; jmp $-1. QEMU's debug exit device ends with (value << 1) | 1.
_BOOT_SECTOR = bytes([0xB0, 0x2A, 0xE6, 0xF4, 0xF4, 0xEB, 0xFD]).ljust(510, b"\0") + b"\x55\xaa"
_STATUS = 0x2A << 1 | 1
_TIMEOUT_S = 20.0
# The firmware boots from nothing smaller.
_DISK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Probe:
    """Whether a guest ran. detail: for people."""

    works: bool
    detail: str


def probe(qemu: Path, accelerator: str, account: str = "") -> Probe:
    """Boot the smallest guest with this accelerator (kvm or tcg), as machines are run.

    account: whose groups machines have: what root may open is not what they may.
    """
    try:
        run_as = account_owner(account) if account and os.geteuid() == 0 else None
    except KeyError:
        return Probe(False, f"{accelerator}: there is no account {account} (vm.user)")
    with tempfile.NamedTemporaryFile(prefix="gpuaas-probe-") as sector:
        sector.write(_BOOT_SECTOR.ljust(_DISK_BYTES, b"\0"))
        sector.flush()
        os.fchmod(sector.fileno(), 0o444)
        argv = [
            str(qemu),
            # Named, so that nobody takes it for a machine that was not asked for.
            *("-name", "guest=gpuaas-probe"),
            *("-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"),
            *("-machine", f"q35,accel={accelerator}"),
            *("-cpu", "host" if accelerator == "kvm" else "max", "-m", "32M"),
            *("-drive", f"if=none,id=boot,file={sector.name},format=raw,readonly=on"),
            *("-device", "virtio-blk-pci,drive=boot,bootindex=1"),
            *("-device", "isa-debug-exit,iobase=0xf4,iosize=0x01"),
        ]
        try:
            ran = run(argv, timeout_s=_TIMEOUT_S, run_as=run_as)
        except CommandError as error:
            return Probe(False, f"{accelerator}: {error.detail}")
    if ran.status == _STATUS:
        return Probe(True, f"{accelerator}: a guest ran")
    return Probe(False, f"{accelerator}: QEMU ended with {ran.status}: {ran.complaint}"[:500])
