"""Make an operator account: the first administrator, or a colleague."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.errors import ProductError
from tenants.models import OperatorRole
from tenants.services.operators import operator_create


class Command(BaseCommand):
    """``manage.py operator_create ada@example.org``"""

    help = "Make an operator account; its password is printed once unless read from stdin."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="", help="The person's name.")
        parser.add_argument(
            "--role",
            default=OperatorRole.ADMINISTRATOR,
            choices=OperatorRole.values,
            help="What the operator may do.",
        )
        parser.add_argument(
            "--password-stdin", action="store_true", help="Read the password from standard input."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        given = sys.stdin.readline().rstrip("\n") if options["password_stdin"] else ""
        try:
            user, password = operator_create(
                email=options["email"],
                full_name=options["name"],
                password=given,
                role=options["role"],
            )
        except ProductError as error:
            raise CommandError(f"{error.detail} ({error.code})") from error
        self.stdout.write(f"operator {user.email}")
        if not given:
            self.stdout.write(f"password {password}")
