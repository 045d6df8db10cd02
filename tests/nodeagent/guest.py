"""A guest small enough to boot in seconds without KVM: a distribution's kernel and busybox.

At boot it looks at what stands in for its devices before it touches them, mounts its cloud-init
volume, leaves a mark on every device as a tenant would, and gives a shell on its serial console.
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import stat
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUSYBOX = Path("/bin/busybox")
QEMU = Path("/usr/bin/qemu-system-x86_64")
XORRISO = Path("/usr/bin/xorriso")
# In the order in which they need each other.
_MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "drivers/block/virtio_blk",
    "drivers/cdrom/cdrom",
    "fs/isofs/isofs",
)
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /bin /proc /sys /dev /mnt
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for one in %s; do insmod /modules/$one.ko; done
for block in /sys/block/vd*; do
    name=${block##*/} serial=$(cat $block/serial)
    case $serial in
    cidata) mount -t iso9660 -o ro /dev/$name /mnt ;;
    slot*)
        found=$(dd if=/dev/$name bs=512 skip=1 count=1 2>/dev/null | tr -d '\\0')
        echo "found on $serial: [$found]" >>/found
        echo "a tenant was here" | dd of=/dev/$name bs=512 seek=1 conv=sync,fsync 2>/dev/null ;;
    esac
done
echo "guest is ready"
exec setsid sh -c 'exec sh </dev/ttyS0 >/dev/ttyS0 2>&1'
"""


def kernel_tree() -> Path:
    """Where a kernel's package is unpacked. Skips, loudly, where a guest cannot be run."""
    trees = [ROOT / "build" / "kernel", Path("/")]
    if "GPUAAS_TEST_KERNEL" in os.environ:
        trees.insert(0, Path(os.environ["GPUAAS_TEST_KERNEL"]))
    for program, package in (
        (QEMU, "qemu-system-x86"),
        (BUSYBOX, "busybox-static"),
        (XORRISO, "xorriso"),
    ):
        if not program.exists():
            pytest.skip(f"NO MACHINE WAS BOOTED: {program} is missing; install {package}")
    for tree in trees:
        if any(tree.glob("boot/vmlinuz-*")) and any(tree.glob("lib/modules/*/kernel/fs/isofs")):
            return tree
    pytest.skip("NO MACHINE WAS BOOTED: there is no kernel; run scripts/guest-kernel")


def write_guest(tree: Path, folder: Path) -> str:
    """Kernel and initramfs in the folder; gives the image's TOML table."""
    kernel = max(tree.glob("boot/vmlinuz-*"))
    release = kernel.name.removeprefix("vmlinuz-")
    modules = tree / "lib" / "modules" / release / "kernel"
    names = " ".join(Path(one).name for one in _MODULES)
    files = {
        "bin/busybox": (0o755, BUSYBOX.read_bytes()),
        "init": (0o755, (_INIT % names).encode()),
    }
    for one in _MODULES:
        files[f"modules/{Path(one).name}.ko"] = (0o644, (modules / f"{one}.ko").read_bytes())
    folder.mkdir(exist_ok=True)
    (folder / "initrd").write_bytes(gzip.compress(_newc(files), 1))
    shutil.copyfile(kernel, folder / "vmlinuz")
    return (
        f'kernel = "{folder}/vmlinuz"\ninitrd = "{folder}/initrd"\n'
        'append = "console=ttyS0 quiet panic=-1"\n'
    )


def _newc(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An archive in cpio's newc form, as in the kernel's initramfs/buffer-format document."""
    out = bytearray()
    folders = sorted({str(Path(name).parent) for name in files} - {"."})
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | mode, content) for name, (mode, content) in files.items()]
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4)
        out += content + bytes(-len(content) % 4)
    return bytes(out)


class Console:
    """A guest's serial console, as an operator would use it."""

    def __init__(self, path: Path) -> None:
        self._channel = socket.socket(socket.AF_UNIX)
        self._channel.connect(str(path))
        self.heard = ""

    def say(self, line: str) -> None:
        """Type a line."""
        self._channel.sendall(line.encode() + b"\n")

    def expect(self, text: str, seconds: float = 60.0) -> str:
        """Listen until this is heard; gives everything that was. Fails when it is not."""
        end = time.monotonic() + seconds
        while text not in self.heard:
            self._channel.settimeout(max(0.01, end - time.monotonic()))
            try:
                part = self._channel.recv(65_536)
            except TimeoutError:
                part = b""
            assert part or time.monotonic() < end, f"{text!r} was not heard in {self.heard[-2000:]}"
            self.heard += part.decode("utf-8", "replace").replace("\r", "")
        return self.heard

    def ask(self, command: str, text: str, seconds: float = 60.0) -> str:
        """Type a command, again and again while nobody listens yet, until this is heard."""
        end = time.monotonic() + seconds
        while True:
            self.heard = ""
            self.say(command)
            try:
                return self.expect(text, min(3.0, max(0.1, end - time.monotonic())))
            except AssertionError:
                if time.monotonic() > end:
                    raise

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
