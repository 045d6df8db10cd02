from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
import django_fsm
from django.db import migrations, models

import gpuaas.kernel.ids

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    """Traces of an earlier tenant block the slot they are on; an override may be about them."""

    dependencies = [("placement", "0005_lean_indexes")]

    operations = [
        migrations.CreateModel(
            name="SlotResidue",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gpuaas.kernel.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "state_since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("found", "Found"),
                            ("overridden", "Overridden"),
                            ("gone", "Gone"),
                        ],
                        default="found",
                        max_length=24,
                    ),
                ),
                (
                    "left_by",
                    models.CharField(
                        blank=True,
                        help_text="The allocation that left it, as the host names it.",
                        max_length=64,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="residues",
                        to="placement.node",
                    ),
                ),
                (
                    "slot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="residues",
                        to="placement.slot",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "slot residues",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["found", "overridden"])),
                        fields=["node"],
                        name="residue_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["found", "overridden"])),
                        fields=("slot", "left_by"),
                        name="residue_once",
                    )
                ],
            },
        ),
        migrations.AlterField(
            model_name="cleanupoverride",
            name="claim",
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="override",
                to="placement.claim",
            ),
        ),
        migrations.AddField(
            model_name="cleanupoverride",
            name="residue",
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="overriding",
                to="placement.slotresidue",
            ),
        ),
        migrations.AddConstraint(
            model_name="cleanupoverride",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("claim__isnull", True), ("residue__isnull", True), _connector="XOR"
                ),
                name="override_is_of_one_thing",
            ),
        ),
        migrations.RunSQL(
            (SQL / "recount_v2.sql").read_text(encoding="utf-8"),
            (SQL / "recount_v1.sql").read_text(encoding="utf-8"),
        ),
    ]
