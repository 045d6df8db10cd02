import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0007_plurals"),
    ]

    operations = [
        migrations.CreateModel(
            name="Storage",
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
                ("name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.SlugField(
                        help_text="What it is good for, such as parallel.", max_length=40
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                (
                    "zones",
                    models.JSONField(
                        default=list, help_text="From where it is reached; empty: all."
                    ),
                ),
                ("declared_by", models.JSONField(default=dict)),
                ("retired_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name_plural": "storage",
                "constraints": [
                    models.UniqueConstraint(fields=("name", "version"), name="one_storage_version")
                ],
            },
        ),
    ]
