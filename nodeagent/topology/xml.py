"""How is a foreign XML file read without trusting it?

A DOCTYPE line is tolerated, since hwloc writes one, but never followed. Entity declarations,
external references, oversize, deep nesting and too many elements are refused while parsing, before
anything is built from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError

from defusedxml.common import DTDForbidden, EntitiesForbidden, ExternalReferenceForbidden
from defusedxml.ElementTree import DefusedXMLParser

from nodeagent.topology.errors import TopologyError

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 100_000
_CHUNK = 64 * 1024


@dataclass
class Element:
    """One element: local tag name, attributes, children in order, and its own text."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str | None:
        """An attribute's text without blanks around it; None when absent or empty."""
        return self.attributes.get(name, "").strip() or None

    def named(self, *tags: str) -> list[Element]:
        """The children with one of these tags."""
        return [child for child in self.children if child.tag in tags]


class _BoundedBuilder:
    """Target of the parser: counts depth and elements as they come."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise TopologyError("xml_too_many_elements", f"more than {MAX_ELEMENTS} elements")
        if len(self._open) >= MAX_DEPTH:
            raise TopologyError("xml_too_deep", f"elements nest deeper than {MAX_DEPTH}")
        element = Element(tag.rpartition("}")[2], dict(attributes))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _tag: str) -> None:
        self._open.pop()

    def data(self, data: str) -> None:
        if self._open and not data.isspace():
            self._open[-1].text += data

    def close(self) -> Element | None:
        return self.root


def read_xml(content: bytes) -> Element:
    """Parse a whole file. Raises TopologyError with one of the xml_ codes."""
    if len(content) > MAX_BYTES:
        raise TopologyError("xml_too_large", f"the file is over {MAX_BYTES} bytes")
    builder = _BoundedBuilder()
    parser = DefusedXMLParser(
        target=builder, forbid_dtd=False, forbid_entities=True, forbid_external=True
    )
    try:
        for begin in range(0, len(content), _CHUNK):
            parser.feed(content[begin : begin + _CHUNK])
        parser.close()
    except EntitiesForbidden as error:
        raise TopologyError(
            "xml_entity_forbidden", "the file declares an entity; entities are not accepted"
        ) from error
    except (ExternalReferenceForbidden, DTDForbidden) as error:
        raise TopologyError(
            "xml_external_forbidden", "the file refers to something outside itself"
        ) from error
    except (ParseError, ValueError, LookupError) as error:
        if isinstance(error, TopologyError):
            raise
        raise TopologyError("xml_malformed", "the file is not well-formed XML") from error
    if builder.root is None:
        raise TopologyError("xml_malformed", "the file has no element")
    return builder.root
