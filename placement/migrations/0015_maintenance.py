"""Windows of maintenance, notices to tenants, and the two columns that fold a window."""

import django.contrib.postgres.constraints
import django.db.models.deletion
import django.db.models.functions.datetime
import django_fsm
from django.db import migrations, models

import gpuaas.kernel.ids
import placement.fields


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0014_drift"),
        ("tenants", "0009_sku_parts"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="free_until",
            field=models.DateTimeField(
                help_text="When its next window of maintenance begins.", null=True
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="open_until",
            field=models.DateTimeField(
                help_text="Until when something without an end may be placed there.", null=True
            ),
        ),
        migrations.AddField(
            model_name="pool",
            name="notice_again_s",
            field=models.PositiveIntegerField(
                db_default=86400,
                default=86400,
                help_text="Seconds before maintenance at which its tenants are told again.",
            ),
        ),
        migrations.AddField(
            model_name="pool",
            name="notice_lead_s",
            field=models.PositiveIntegerField(
                db_default=259200,
                default=259200,
                help_text="Seconds before maintenance from which nothing without an end is placed.",
            ),
        ),
        migrations.CreateModel(
            name="MaintenanceWindow",
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
                    "plan",
                    models.UUIDField(
                        help_text="The same for all nodes that were planned in one act."
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("reason", models.CharField(max_length=500)),
                ("owner", models.JSONField(default=dict)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("planned", "Planned"),
                            ("announced", "Announced"),
                            ("active", "Active"),
                            ("ended", "Ended"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="planned",
                        max_length=24,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="windows",
                        to="placement.node",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["planned", "announced", "active"])),
                        fields=["starts_at"],
                        name="window_open",
                    ),
                    models.Index(fields=["node", "-starts_at"], name="window_of_node"),
                    models.Index(fields=["plan"], name="window_plan"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))),
                        name="window_ends_after_it_starts",
                    ),
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        condition=models.Q(("state__in", ["planned", "announced", "active"])),
                        expressions=[
                            ("node", "="),
                            (placement.fields.Stretch("starts_at", "ends_at"), "&&"),
                        ],
                        name="no_overlapping_windows",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Notice",
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
                    "kind",
                    models.CharField(
                        choices=[
                            ("maintenance_planned", "Planned"),
                            ("maintenance_soon", "Soon"),
                            ("maintenance_cancelled", "Cancelled"),
                            ("drain", "Drain"),
                            ("drain_over", "Drain Over"),
                        ],
                        max_length=24,
                    ),
                ),
                ("key", models.CharField(max_length=120, unique=True)),
                ("text", models.TextField()),
                ("starts_at", models.DateTimeField(null=True)),
                ("ends_at", models.DateTimeField(null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.JSONField(null=True)),
                (
                    "allocation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notices",
                        to="placement.allocation",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notices",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["tenant", "-created_at"], name="notice_tenant")],
            },
        ),
    ]
