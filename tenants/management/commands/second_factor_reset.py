"""Give somebody who lost their second factor a way back in, from the machine itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.actor import system
from tenants.models import User
from tenants.services.second_factor import factor_remove


class Command(BaseCommand):
    """``manage.py second_factor_reset ada@example.org --reason "phone lost"``"""

    help = "Forget a person's second factor and recovery codes; operators set up another at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--reason", required=True, help="Kept in the audit log.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["email"]).first()
        if user is None:
            raise CommandError("no account has this address")
        factor_remove(user=user, reason=options["reason"], actor=system("command line"))
        self.stdout.write(f"the second factor of {user.email} is gone")
