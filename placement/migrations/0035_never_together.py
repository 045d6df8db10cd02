"""Tenants that are never placed on one host, and who they are to one that asks."""

from pathlib import Path

import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0034_statistics"),
    ]

    operations = [
        migrations.CreateModel(
            name="Separation",
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
                ("name", models.SlugField(max_length=60, unique=True)),
                (
                    "tenants",
                    models.JSONField(help_text="Ids of the tenants, at least two, in order."),
                ),
                ("reason", models.TextField()),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("tenants__1__isnull", False)),
                        name="a_separation_is_of_two_or_more",
                    )
                ],
            },
        ),
        migrations.RunSQL(
            (SQL / "never_with_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_never_with(uuid)",
        ),
    ]
