"""How do facts become JSON?  Ids, times and enumerations by their text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same facts in the types that JSON knows; what it does not know becomes its text.

    ValueError: NaN or infinity, which JSON has no number for.
    """
    made: dict[str, Any] = json.loads(json.dumps(dict(facts), default=str, allow_nan=False))
    return made
