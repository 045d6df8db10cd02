import django.db.models.functions.datetime
import django_fsm
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AdmissionRequest",
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
                ("action", models.CharField(default="allocation.create", max_length=40)),
                ("pool", models.CharField(max_length=60)),
                ("slots", models.PositiveSmallIntegerField(help_text="0 means the whole node.")),
                ("amount_milli", models.BigIntegerField(help_text="Quota it takes when placed.")),
                ("wait", models.BooleanField(default=False)),
                ("band", models.PositiveSmallIntegerField(default=0)),
                (
                    "spec",
                    models.JSONField(
                        default=dict, help_text="Name, image, keys: what is not a rule."
                    ),
                ),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("received", "Received"),
                            ("queued", "Queued"),
                            ("admitted", "Admitted"),
                            ("denied", "Denied"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        db_index=True,
                        default="received",
                        max_length=24,
                    ),
                ),
                (
                    "code",
                    models.CharField(
                        blank=True, help_text="Why it waits or was refused.", max_length=64
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                (
                    "allocation_id",
                    models.UUIDField(help_text="What it became, once placed.", null=True),
                ),
                ("run_id", models.UUIDField(null=True)),
                ("actor", models.JSONField(default=dict)),
                ("queued_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Decision",
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
                    "verdict",
                    models.CharField(
                        choices=[("admit", "admit"), ("wait", "wait"), ("deny", "deny")],
                        max_length=8,
                    ),
                ),
                ("code", models.CharField(blank=True, max_length=64)),
                (
                    "gates",
                    models.JSONField(help_text="[{gate, passed, code, detail, facts}] in order."),
                ),
                ("winner", models.JSONField(null=True)),
                ("runner_up", models.JSONField(null=True)),
                ("why", models.TextField(blank=True)),
                ("envelope_version", models.PositiveIntegerField(default=0)),
                ("digest", models.CharField(max_length=64)),
            ],
        ),
    ]
