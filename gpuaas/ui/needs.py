"""What does a page need of its reader?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Needs:
    """The actions of ``tenants.domain.roles`` that a page asks for.

    ``read`` to be looked at, where empty means whoever comes in; ``write`` to be sent, also for
    a form that leads to another page.
    """

    read: str = ""
    write: str = ""


NOBODY: Final = Needs("nobody", "nobody")
"""Of a page that its table does not name: no role carries it."""
