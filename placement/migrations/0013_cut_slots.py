"""Slots that are sold in parts, and the functions that count and commit them."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import placement.fields

SQL = Path(__file__).resolve().parent.parent / "sql"


def _text(name: str) -> str:
    return (SQL / name).read_text(encoding="utf-8")


FORMER_COMMIT = (
    "DROP FUNCTION placement_commit(jsonb, int[], int[], bigint[], bigint[], jsonb, jsonb, "
    "boolean, jsonb); DROP FUNCTION placement_fabric_open(text, int, uuid, int, placement_item[]); "
    "ALTER TYPE placement_item DROP ATTRIBUTE part; "
    "ALTER TYPE placement_item DROP ATTRIBUTE alone; "
)


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0012_breaker"),
        ("tenants", "0009_sku_parts"),
    ]

    operations = [
        migrations.CreateModel(
            name="CutSlot",
            fields=[
                (
                    "slot",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="cut_state",
                        serialize=False,
                        to="placement.slot",
                    ),
                ),
                ("node_num", models.IntegerField()),
                ("slot_index", models.PositiveSmallIntegerField()),
                (
                    "cut",
                    models.CharField(choices=[("mig", "mig"), ("share", "share")], max_length=5),
                ),
                (
                    "board",
                    models.CharField(
                        blank=True,
                        help_text="The MIG geometry, by its name; empty for shares.",
                        max_length=16,
                    ),
                ),
                ("memory_mib", models.PositiveIntegerField(help_text="Memory of the GPU.")),
                (
                    "state",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="Memory slices and media engines in use, a bit each."
                    ),
                ),
                (
                    "taken",
                    placement.fields.SpanField(
                        default="{}", help_text="The spans of the node's line in use here."
                    ),
                ),
                ("free_milli", models.PositiveSmallIntegerField(default=1000)),
                ("memory_used_mib", models.PositiveIntegerField(default=0)),
                (
                    "holder",
                    models.UUIDField(help_text="The tenant whose shares are on it.", null=True),
                ),
                ("open", models.BooleanField(default=False)),
            ],
        ),
        migrations.AddField(
            model_name="claim",
            name="part",
            field=models.JSONField(
                help_text="The part of the slot that is held: kind, and profile, start, size or milli, memory_mib; null for all of it.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="part_kinds",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=5),
                db_default=[],
                default=list,
                help_text="The kinds of parts of a GPU that its agent says it can make.",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="slot",
            name="cut",
            field=models.CharField(
                choices=[("whole", "whole"), ("mig", "mig"), ("share", "share")],
                db_default="whole",
                default="whole",
                help_text="As what it is sold: whole, or in parts of one kind.",
                max_length=5,
            ),
        ),
        migrations.AddConstraint(
            model_name="claim",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("part__isnull", True),
                    models.Q(
                        ("part__kind__in", ("mig", "share")),
                        ("slot__isnull", False),
                        ("slot_index__gte", 0),
                    ),
                    _connector="OR",
                ),
                name="a_part_is_of_a_slot",
            ),
        ),
        migrations.AddField(
            model_name="cutslot",
            name="family",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="placement.nodefamily",
            ),
        ),
        migrations.AddField(
            model_name="cutslot",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="cut_slots",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="cutslot",
            name="pool",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="placement.pool",
            ),
        ),
        migrations.AddIndex(
            model_name="cutslot",
            index=models.Index(
                condition=models.Q(("cut", "mig"), ("open", True)),
                fields=["pool", "family", "board", "state", "node_num"],
                name="cut_mig_free",
            ),
        ),
        migrations.AddIndex(
            model_name="cutslot",
            index=models.Index(
                condition=models.Q(("cut", "share"), ("open", True)),
                fields=["pool", "family", "holder", "free_milli", "node_num"],
                name="cut_share_free",
            ),
        ),
        migrations.AddConstraint(
            model_name="cutslot",
            constraint=models.UniqueConstraint(fields=("node_num", "slot_index"), name="cut_once"),
        ),
        migrations.AddConstraint(
            model_name="cutslot",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("free_milli__lte", 1000),
                    ("memory_used_mib__lte", models.F("memory_mib")),
                    ("state__lt", 512),
                ),
                name="parts_fit_their_gpu",
            ),
        ),
        migrations.AddConstraint(
            model_name="cutslot",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("cut", "mig"),
                        ("holder__isnull", True),
                        models.Q(("board", ""), _negated=True),
                    ),
                    models.Q(("board", ""), ("cut", "share"), ("state", 0)),
                    _connector="OR",
                ),
                name="cut_is_of_one_kind",
            ),
        ),
        migrations.RunSQL(
            _text("cut_v1.sql"),
            "DROP FUNCTION placement_cut_recount(uuid); DROP FUNCTION placement_cuts(int);",
        ),
        migrations.RunSQL(_text("recount_v3.sql"), _text("recount_v2.sql")),
        migrations.RunSQL(_text("commit_v3.sql"), FORMER_COMMIT + _text("commit_v2.sql")),
    ]
