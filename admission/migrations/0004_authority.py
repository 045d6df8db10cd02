from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django_fsm
from django.db import migrations, models

import gpuaas.kernel.ids

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0003_refuse_function"),
        ("tenants", "0004_authority"),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyRule",
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
                ("name", models.SlugField(max_length=60)),
                ("rule_version", models.PositiveIntegerField()),
                (
                    "actions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("allocation.create", "Lease"),
                                ("job.submit", "Job"),
                                ("service.create", "Service"),
                                ("model.deploy", "Model"),
                                ("workload.scale", "Scale"),
                                ("workload.batch_size", "Batch Size"),
                                ("gpu.sharing", "Sharing"),
                                ("workload.placement", "Placement"),
                                ("workload.priority", "Priority"),
                                ("tenant.signup", "Signup"),
                                ("tenant.delete", "Deletion"),
                                ("quota.increase", "Quota Increase"),
                            ],
                            max_length=40,
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                ("expression", models.TextField(max_length=2000)),
                ("message", models.CharField(max_length=300)),
                ("unblock", models.CharField(blank=True, max_length=300)),
                ("tests", models.JSONField(default=list, help_text="[{name, facts, forbids}]")),
                (
                    "report",
                    models.JSONField(
                        help_text="The last dry-run against recorded decisions.", null=True
                    ),
                ),
                ("author", models.JSONField(default=dict)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("draft", "Draft"),
                            ("dry_run", "Dry Run"),
                            ("active", "Active"),
                            ("retired", "Retired"),
                        ],
                        db_index=True,
                        default="draft",
                        max_length=24,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Workload",
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
                    "kind",
                    models.CharField(
                        choices=[("job", "job"), ("service", "service"), ("model", "model")],
                        max_length=8,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                (
                    "slots",
                    models.PositiveSmallIntegerField(help_text="Per replica; 0 means whole nodes."),
                ),
                ("replicas", models.PositiveIntegerField(default=1)),
                ("band", models.PositiveSmallIntegerField(default=0)),
                ("batch_size", models.PositiveIntegerField(null=True)),
                ("spec", models.JSONField(default=dict)),
                ("generation", models.PositiveIntegerField(default=1)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("submitted", "Submitted"),
                            ("admitted", "Admitted"),
                            ("stopping", "Stopping"),
                            ("ended", "Ended"),
                        ],
                        db_index=True,
                        default="submitted",
                        max_length=24,
                    ),
                ),
                ("outcome", models.CharField(blank=True, max_length=12)),
                ("code", models.CharField(blank=True, max_length=64)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="admissionrequest",
            name="request_takes_quota",
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="replicas",
            field=models.PositiveIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="subject_id",
            field=models.UUIDField(help_text="What the action is about, if not new.", null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="facts",
            field=models.JSONField(
                db_default=models.Value({}, models.JSONField()),
                default=dict,
                help_text="What the gates looked at.",
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="policy_version",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="Digest of the active rules' names and versions.",
                max_length=64,
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="action",
            field=models.CharField(
                choices=[
                    ("allocation.create", "Lease"),
                    ("job.submit", "Job"),
                    ("service.create", "Service"),
                    ("model.deploy", "Model"),
                    ("workload.scale", "Scale"),
                    ("workload.batch_size", "Batch Size"),
                    ("gpu.sharing", "Sharing"),
                    ("workload.placement", "Placement"),
                    ("workload.priority", "Priority"),
                    ("tenant.signup", "Signup"),
                    ("tenant.delete", "Deletion"),
                    ("quota.increase", "Quota Increase"),
                ],
                default="allocation.create",
                max_length=40,
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="pool",
            field=models.CharField(blank=True, max_length=60),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="resource_class",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="sku",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"
            ),
        ),
        migrations.AddConstraint(
            model_name="policyrule",
            constraint=models.UniqueConstraint(
                fields=("name", "rule_version"), name="one_rule_version"
            ),
        ),
        migrations.AddConstraint(
            model_name="policyrule",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "active")), fields=("name",), name="one_active_version"
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.project"
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="sku",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"),
        ),
        migrations.AddField(
            model_name="workload",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="workloads",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="workload",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="requests",
                to="admission.workload",
            ),
        ),
        migrations.AddConstraint(
            model_name="admissionrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_milli__gte", 0)), name="request_takes_quota"
            ),
        ),
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(fields=["tenant", "-created_at"], name="workload_tenant"),
        ),
        migrations.RunSQL(
            (SQL / "refuse_v2.sql").read_text(encoding="utf-8"),
            (SQL / "refuse_v1.sql").read_text(encoding="utf-8"),
        ),
    ]
