"""What is promised or demanded about where an SKU, a tier or a pool is placed?  Shown, and set.

manage.py placement_terms
manage.py placement_terms sku h100.slice --alone wiring --reason "sold as isolated"
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.actor import system
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.scope import platform_scope
from placement.domain.terms import OWN, Alone, told
from placement.models import PlacementTerms
from placement.services.terms import NOUNS, terms_set
from tenants.models import Tenant

SAID = ("noun", "name", "reason", "alone", "own", "driver_min", "driver_below", "runtime_min")


class Command(BaseCommand):
    """Without a name it lists what there is; with one it sets all terms of it."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """Terms that are left out bind nothing."""
        parser.add_argument("noun", nargs="?", choices=list(NOUNS))
        parser.add_argument("name", nargs="?")
        parser.add_argument("--reason", default="")
        parser.add_argument("--alone", default="shares", choices=[a.name.lower() for a in Alone])
        parser.add_argument("--own", default="", choices=[own for own in OWN if own])
        parser.add_argument("--driver-min", default="")
        parser.add_argument("--driver-below", default="")
        parser.add_argument("--runtime-min", default="")
        parser.add_argument("--tenant", action="append", default=[], help="slug; for pools")

    def handle(self, *args: Any, **options: Any) -> None:
        """List, or set."""
        with platform_scope():
            if options["noun"] is None:
                for row in PlacementTerms.objects.order_by("about"):
                    self.stdout.write(_said(row))
                return
            if not options["name"]:
                raise CommandError(f"name the {options['noun']}")
            slugs = options["tenant"]
            found = dict(Tenant.objects.filter(slug__in=slugs).values_list("slug", "pk"))
            if missing := sorted(set(slugs) - set(found)):
                raise CommandError(f"there is no tenant {', '.join(missing)}")
            try:
                row = terms_set(
                    **{key: options[key] for key in SAID},
                    tenants=list(found.values()),
                    actor=system("operator"),
                )
            except ProductError as refused:
                raise CommandError(refused.detail or refused.title) from refused
            self.stdout.write(_said(row))


def _said(row: PlacementTerms) -> str:
    parts = {
        "alone": Alone(row.alone).name.lower() if row.alone else "",
        "own": row.own,
        "driver_min": told(tuple(row.driver_min)),
        "driver_below": told(tuple(row.driver_below)),
        "runtime_min": told(tuple(row.runtime_min)),
        "tenants": ", ".join(row.tenants),
    }
    bound = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
    return f"{row.about}: {bound or 'nothing bound'} (version {row.version})"
