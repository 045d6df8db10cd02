import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0016_replacements"),
    ]

    operations = [
        migrations.CreateModel(
            name="Defragmentation",
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
                ("sku", models.CharField(max_length=60)),
                (
                    "slots",
                    models.PositiveSmallIntegerField(
                        help_text="The size to make room for; 0: a host."
                    ),
                ),
                ("moves", models.JSONField(default=list)),
                ("digest", models.CharField(max_length=64)),
                ("reason", models.TextField()),
                ("actor", models.JSONField(default=dict)),
                ("run_id", models.UUIDField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(blank=True, max_length=12)),
                ("code", models.CharField(blank=True, max_length=64)),
                ("detail", models.TextField(blank=True)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="defragmentations",
                        to="placement.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="defragmentations",
                        to="placement.pool",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=["host"],
                        name="defrag_host",
                    ),
                    models.Index(
                        models.OrderBy(models.F("created_at"), descending=True),
                        name="defrag_newest",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pool",),
                        name="one_defragmentation",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DefragPolicy",
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
                ("enabled", models.BooleanField(db_default=False, default=False)),
                (
                    "moves",
                    models.PositiveSmallIntegerField(
                        default=4, help_text="At most so many in one run."
                    ),
                ),
                (
                    "lost_milli",
                    models.PositiveIntegerField(
                        default=8000,
                        help_text="Lost work in thousandths of a GPU-hour, at most in one run.",
                    ),
                ),
                ("from_hour", models.PositiveSmallIntegerField(default=0)),
                ("until_hour", models.PositiveSmallIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "pool",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="defrag_policy",
                        to="placement.pool",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "defragmentation policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("from_hour__lte", 23), ("until_hour__lte", 23)),
                        name="defrag_hours_of_a_day",
                    )
                ],
            },
        ),
    ]
