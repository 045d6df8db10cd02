"""Is every list of the API read in the same way?"""

from __future__ import annotations

from typing import Any

import yaml

from tests.architecture.tree import ROOT

DOCUMENT = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or the one that it refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return dict(DOCUMENT["components"]["schemas"][name]) if name else schema


def reads() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Of each GET: its query parameters by name, and the members of its answer."""
    found = {}
    for path, item in DOCUMENT["paths"].items():
        content = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = resolved(content.get("application/json", {}).get("schema", {}))
        asked = {
            one["name"]: one["schema"]
            for one in item.get("get", {}).get("parameters", ())
            if one["in"] == "query"
        }
        found[path] = (asked, schema.get("properties", {}))
    return found


def test_every_list_takes_a_limit_and_a_cursor_and_says_how_to_go_on() -> None:
    lists = {path: one for path, one in reads().items() if "items" in one[1]}
    assert len(lists) > 40
    pages = {
        path: (asked.get("limit"), asked.get("cursor"), members.get("next", {}).get("type"))
        for path, (asked, members) in lists.items()
    }
    number = {"type": "integer", "minimum": 1}
    cursor = {"type": "string", "maxLength": 2000}
    assert {p: page for p, page in pages.items() if page != (number, cursor, "string")} == {}


def test_what_is_no_list_takes_neither() -> None:
    others = {path: asked for path, (asked, members) in reads().items() if "items" not in members}
    assert {p: set(asked) for p, asked in others.items() if {"limit", "cursor"} & set(asked)} == {}


def test_no_answer_of_a_read_is_a_bare_array() -> None:
    bare = []
    for path, item in DOCUMENT["paths"].items():
        content = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = resolved(content.get("application/json", {}).get("schema", {}))
        if schema.get("type") == "array":
            bare.append(path)
    assert bare == []
