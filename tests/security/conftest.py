"""What may a walk over every address change without another test's noticing?"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def a_key_of_its_own(own_key: Path) -> Path:
    """A walk prepares, switches and retires the control plane's signing key."""
    return own_key
