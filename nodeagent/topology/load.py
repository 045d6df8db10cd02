"""Which kind of topology file is this, and what does it say?"""

from __future__ import annotations

from pathlib import Path

from nodeagent.protocol import sha256_hex
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.hwloc import import_hwloc
from nodeagent.topology.model import Topology
from nodeagent.topology.nccl import import_nccl
from nodeagent.topology.xml import MAX_BYTES, read_xml


def load_topology(content: bytes) -> Topology:
    """Read an NCCL or hwloc topology file, told apart by its root element.

    Raises TopologyError when it is unsafe, malformed or of another kind.
    """
    root = read_xml(content)
    digest = sha256_hex(content)
    if root.tag == "system":
        return import_nccl(root, digest)
    if root.tag == "topology":
        return import_hwloc(root, digest)
    raise TopologyError("topology_format_unknown", "neither an NCCL nor an hwloc topology file")


def load_topology_file(path: Path) -> Topology:
    """Read a topology file from disk. Raises TopologyError, or OSError when it cannot be read."""
    with path.open("rb") as stream:
        # One byte more than allowed is enough to see that it is too large.
        return load_topology(stream.read(MAX_BYTES + 1))
