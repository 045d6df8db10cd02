"""Why was a topology file refused as a whole?"""

from __future__ import annotations


class TopologyError(ValueError):
    """A topology file that cannot be used at all.

    code: xml_too_large, xml_too_deep, xml_too_many_elements, xml_entity_forbidden,
    xml_external_forbidden, xml_malformed, topology_format_unknown, topology_several_hosts or
    topology_too_large. detail: one sentence for people.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail
