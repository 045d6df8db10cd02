"""Which rule of the database was broken?  By its name, so that no other is taken for it."""

from __future__ import annotations

import psycopg
from django.db import IntegrityError


def is_taken(broken: IntegrityError) -> bool:
    """Whether it is that there is such a row already: no other broken rule is a taken name."""
    return isinstance(broken.__cause__, psycopg.errors.UniqueViolation)


def constraint_of(broken: IntegrityError) -> str:
    """The constraint's name; empty where it has none, as for a column that may not be null."""
    cause = broken.__cause__
    return (cause.diag.constraint_name or "") if isinstance(cause, psycopg.Error) else ""
