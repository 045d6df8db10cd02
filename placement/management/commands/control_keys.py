"""By which keys do hosts know the control plane's tasks?  Shown, written for a host, and rotated.

manage.py control_keys                      the public keys: the one that signs, then the next
manage.py control_keys --node gpu-17        the file control-keys.toml of that host's helper
manage.py control_keys prepare              make the next key; then tell every host of it
manage.py control_keys switch               let it sign; then restart web and worker
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.scope import platform_scope
from placement.models import Node
from placement.services.control_keys import (
    ControlKeyProblem,
    control_key_prepare,
    control_key_switch,
    control_keys_list,
    control_keys_text,
)


class Command(BaseCommand):
    """Only public halves are ever written out."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """What is to be done; nothing: show them."""
        parser.add_argument("act", nargs="?", choices=["prepare", "switch"])
        parser.add_argument("--node", default="", help="by its name in the inventory")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError with the way out."""
        try:
            if options["act"] == "prepare":
                self.stdout.write(control_key_prepare())
            elif options["act"] == "switch":
                self.stdout.write(control_key_switch())
            elif options["node"]:
                with platform_scope():
                    node = Node.objects.filter(name=options["node"]).first()
                if node is None:
                    raise CommandError(f"There is no node {options['node']!r}.")
                self.stdout.write(control_keys_text(node), ending="")
            else:
                self.stdout.write("\n".join(control_keys_list()))
        except ControlKeyProblem as problem:
            raise CommandError(str(problem)) from problem
