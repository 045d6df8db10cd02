"""How is a node's free capacity brought to what its slots, drains and claims say?"""

from __future__ import annotations

from django.db import connection

from placement.models import Node


def count_free(node: Node) -> None:
    """Count anew, and show it on ``node``; its row is locked. The generation rises."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT placement_recount(%s)", [node.pk])
    node.refresh_from_db()


def count_cuts(node: Node) -> None:
    """Bring the node's cut slots alone to what it is; its row is locked and saved."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT placement_cut_recount(%s)", [node.pk])
