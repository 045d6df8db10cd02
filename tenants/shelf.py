"""Is there what a SKU is to be made of?  Hosts are known above this app: who knows them is asked.

Whoever is asked may lock what is there, so that it does not end in the same moment.
"""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[str, str, str], None]
"""Given family, pool and profile of a part (or an empty text); raises InvalidRequest by field."""
_checks: list[Check] = []


def asked_of(check: Check) -> None:
    """Have this asked before a SKU is made, at import."""
    if check not in _checks:
        _checks.append(check)


def there_or_refuse(family: str, pool: str, part_profile: str) -> None:
    """Raises InvalidRequest naming what is not there, or not any more."""
    for check in _checks:
        check(family, pool, part_profile)
