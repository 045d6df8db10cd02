"""By which keys do hosts know the control plane's tasks?  Shown, written for a host, and rotated.

manage.py control_keys                              every key that is kept, and what it does
manage.py control_keys --node gpu-17                the file control-keys.toml of that host's helper
manage.py control_keys prepare --reason "spring"    make the next key; then tell every host of it
manage.py control_keys switch --key 1f2e… --reason "spring"     let it sign
manage.py control_keys back --key 0a9b… --reason "hosts lack it"     let the one of before sign
manage.py control_keys retire --key 0a9b… --reason "spring"     remove one that does not sign
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.actor import system
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.scope import platform_scope
from placement.models import Node
from placement.services.control_keys import (
    ControlKey,
    control_key_back,
    control_key_prepare,
    control_key_retire,
    control_key_switch,
    control_keys_list,
    control_keys_text,
)


class Command(BaseCommand):
    """Only public halves are ever written out."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """What is to be done; nothing: show them."""
        parser.add_argument("act", nargs="?", choices=["prepare", "switch", "back", "retire"])
        parser.add_argument("--node", default="", help="by its name in the inventory")
        parser.add_argument("--key", default="", help="its fingerprint")
        parser.add_argument("--reason", default="", help="kept in the record")
        parser.add_argument("--at-once", action="store_true", help="retire: do not wait the hour")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError with the way out."""
        try:
            with platform_scope():
                self._do(**options)
        except ProductError as refused:
            raise CommandError(f"{refused.detail or refused.title} {refused.unblock}") from refused

    def _do(self, *, act: str | None, node: str, key: str, reason: str, **options: Any) -> None:
        given: dict[str, Any] = {"reason": reason, "actor": system("operator")}
        if act == "prepare":
            self._show(control_key_prepare(**given))
        elif act == "switch":
            self._show(control_key_switch(key=key, **given))
        elif act == "back":
            self._show(control_key_back(key=key, **given))
        elif act == "retire":
            control_key_retire(key=key, at_once=options["at_once"], **given)
        elif node:
            found = Node.objects.filter(name=node).first()
            if found is None:
                raise CommandError(
                    f"There is no node {node!r}. Announce it first: gpuaas node create NAME."
                )
            self.stdout.write(control_keys_text(found), ending="")
        else:
            for one in control_keys_list():
                self._show(one)

    def _show(self, key: ControlKey) -> None:
        self.stdout.write(f"{key.role:<8} {key.fingerprint} {key.public_key}")
