import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids
import gpuaas.kernel.models.events


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Lease",
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
                ("name", models.CharField(max_length=80, unique=True)),
                ("holder", models.CharField(blank=True, max_length=80)),
                ("until", models.DateTimeField(null=True)),
                ("epoch", models.BigIntegerField(default=0)),
                ("note", models.JSONField(default=dict)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("uid", models.UUIDField(unique=True)),
                (
                    "xid",
                    models.BigIntegerField(
                        db_default=django.db.models.functions.comparison.Cast(
                            django.db.models.functions.comparison.Cast(
                                gpuaas.kernel.models.events.CurrentTransaction(), models.TextField()
                            ),
                            models.BigIntegerField(),
                        )
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("tenant_id", models.UUIDField(null=True)),
                ("kind", models.CharField(max_length=80)),
                ("subject_kind", models.CharField(blank=True, max_length=40)),
                ("subject_id", models.UUIDField(null=True)),
                ("actor", models.JSONField(default=dict)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("facts", models.JSONField(default=dict)),
                ("correlation", models.CharField(blank=True, max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["xid", "id"], name="event_seal_order"),
                    models.Index(fields=["tenant_id", "id"], name="event_tenant"),
                    models.Index(fields=["subject_id", "id"], name="event_subject"),
                    django.contrib.postgres.indexes.BrinIndex(fields=["at"], name="event_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("principal", models.CharField(max_length=80)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("headers", models.JSONField(default=dict)),
                ("body", models.BinaryField(null=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["expires_at"], name="key_expiry")],
                "constraints": [
                    models.UniqueConstraint(fields=("principal", "key"), name="one_use_of_a_key")
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowRun",
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
                ("kind", models.CharField(max_length=60)),
                ("tenant_id", models.UUIDField(null=True)),
                ("subject_kind", models.CharField(max_length=40)),
                ("subject_id", models.UUIDField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("running", "Running"),
                            ("compensating", "Compensating"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("step", models.CharField(blank=True, max_length=40)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("steps", models.JSONField(default=list)),
                ("input", models.JSONField(default=dict)),
                ("result", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("actor", models.JSONField(default=dict)),
                ("correlation", models.CharField(blank=True, max_length=64)),
                (
                    "due_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), null=True
                    ),
                ),
                ("deadline_at", models.DateTimeField(null=True)),
                ("lease_epoch", models.BigIntegerField(default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                (
                    "updated_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)),
                        fields=["due_at"],
                        name="run_due",
                    ),
                    models.Index(fields=["tenant_id", "-created_at"], name="run_tenant"),
                    models.Index(fields=["subject_id"], name="run_subject"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("subscriber", models.CharField(max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[("pending", "pending"), ("done", "done"), ("failed", "failed")],
                        default="pending",
                        max_length=10,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                (
                    "due_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("done_at", models.DateTimeField(null=True)),
                ("last_error", models.TextField(blank=True)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="deliveries",
                        to="kernel.event",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")),
                        fields=["due_at", "id"],
                        name="delivery_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("event", "subscriber"), name="delivery_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="EventSeal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "chain",
                    models.UUIDField(
                        help_text="The tenant, or the nil UUID for the platform's chain."
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("digest", models.BinaryField(max_length=32)),
                (
                    "event",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="seal",
                        to="kernel.event",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("chain", "seq"), name="seal_once_per_position")
                ],
            },
        ),
    ]
