"""Cards that were replaced, with what was there before."""

import django.db.models.deletion
import django.db.models.functions.datetime
import django_fsm
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0015_maintenance"),
    ]

    operations = [
        migrations.CreateModel(
            name="CardReplacement",
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
                ("slot_index", models.PositiveSmallIntegerField()),
                ("old_uuid", models.CharField(max_length=80)),
                ("old_device", models.JSONField(default=dict)),
                ("new_uuid", models.CharField(blank=True, max_length=80)),
                ("reason", models.CharField(max_length=500)),
                ("declared_by", models.JSONField(default=dict)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("declared", "Declared"),
                            ("approved", "Approved"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="declared",
                        max_length=24,
                    ),
                ),
                (
                    "new_slot",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="replacement_of",
                        to="placement.slot",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="replacements",
                        to="placement.node",
                    ),
                ),
                (
                    "slot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="replaced",
                        to="placement.slot",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "declared")),
                        fields=("slot",),
                        name="one_open_replacement",
                    )
                ],
            },
        ),
    ]
