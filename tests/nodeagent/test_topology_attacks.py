"""Is a hostile topology file refused before it does harm, with a clear reason?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.topology.errors import TopologyError
from nodeagent.topology.load import load_topology, load_topology_file
from nodeagent.topology.xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS


def refusal(content: bytes) -> str:
    """The code with which a file is refused."""
    with pytest.raises(TopologyError) as error:
        load_topology(content)
    assert len(str(error.value)) < 200
    return error.value.code


def test_a_billion_laughs_are_not_expanded() -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">' for number in range(1, 10)
    )
    text = f'<?xml version="1.0"?><!DOCTYPE system [{entities}]><system>&a9;</system>'
    assert refusal(text.encode()) == "xml_entity_forbidden"


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY x SYSTEM "file:///etc/passwd">',
        '<!ENTITY x SYSTEM "http://127.0.0.1:1/x">',
        '<!ENTITY % x SYSTEM "http://127.0.0.1:1/x"> %x;',
        '<!ENTITY x PUBLIC "a" "b">',
    ],
)
def test_external_entities_are_not_fetched(declaration: str) -> None:
    text = f"<!DOCTYPE system [{declaration}]><system>&x;</system>"
    assert refusal(text.encode()) in ("xml_entity_forbidden", "xml_external_forbidden")


def test_a_doctype_alone_is_tolerated_and_not_followed(tmp_path: Path) -> None:
    missing = tmp_path / "absent.dtd"
    text = f'<!DOCTYPE topology SYSTEM "file://{missing}"><topology version="2.0"/>'
    assert load_topology(text.encode()).gpus == ()


def test_an_undeclared_entity_is_malformed() -> None:
    text = b'<!DOCTYPE topology SYSTEM "hwloc.dtd"><topology>&x;</topology>'
    assert refusal(text) == "xml_malformed"


def test_deep_nesting_is_refused_while_reading() -> None:
    depth = 200_000
    assert refusal(b"<system>" + b"<pci>" * depth) == "xml_too_deep"
    inner = MAX_DEPTH - 2
    fits = b"<system><cpu>" + b"<pci>" * inner + b"</pci>" * inner + b"</cpu></system>"
    assert load_topology(fits).gpus == ()


def test_too_many_elements_are_refused() -> None:
    assert refusal(b"<system>" + b"<cpu/>" * MAX_ELEMENTS + b"</system>") == "xml_too_many_elements"


def test_an_oversized_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.xml"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES * 100)
    with pytest.raises(TopologyError) as error:
        load_topology_file(path)
    assert error.value.code == "xml_too_large"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not xml",
        b"<system>",
        b"<system></topology>",
        b"<system/><system/>",
        b"\x00\x01\x02",
        b"\xff\xfe<\x00",
        b'<?xml version="1.0" encoding="no-such"?><system/>',
        b'<system a="1" a="2"/>',
    ],
)
def test_malformed_files_are_refused(content: bytes) -> None:
    assert refusal(content) == "xml_malformed"


def test_another_kind_of_xml_is_refused() -> None:
    assert refusal(b"<graphs version='1'/>") == "topology_format_unknown"


def test_more_gpus_than_a_host_has_are_refused() -> None:
    gpus = "".join(f'<pci busid="{number:04x}:00:00.0" class="0x030200"/>' for number in range(300))
    text = f'<system><cpu numaid="0">{gpus}</cpu></system>'
    assert refusal(text.encode()) == "topology_too_large"


def test_absurd_values_become_unknown_and_not_errors() -> None:
    text = (
        f'<system><cpu numaid="{"9" * 500}" affinity="{"f" * 5000}">'
        f'<pci busid="{"0" * 1000}" class="0x0302{"0" * 90}" link_speed="{"9" * 40} GT/s" '
        f'link_width="-3"><gpu><nvlink target="" count="{"9" * 30}"/></gpu></pci>'
        f'<nic><net name="{"n" * 500}" speed="-1"/></nic></cpu></system>'
    )
    topology = load_topology(text.encode())
    assert [gpu.link_mbps for gpu in topology.gpus] == [None]
    assert topology.nics[0].speed_mbps is None
