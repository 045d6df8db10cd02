import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import django.db.models.functions.text
import django_fsm
from django.conf import settings
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_standard_tier"),
    ]

    operations = [
        migrations.CreateModel(
            name="BreakGlass",
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
                ("reason", models.TextField()),
                ("until", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="BurstRule",
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
                ("name", models.CharField(max_length=120)),
                ("extra_milli", models.BigIntegerField()),
                ("opens_at", models.DateTimeField()),
                ("closes_at", models.DateTimeField()),
                ("every_s", models.PositiveIntegerField(null=True)),
                (
                    "on_close",
                    models.CharField(
                        choices=[("grandfather", "Grandfather"), ("drain", "Drain")],
                        default="grandfather",
                        max_length=12,
                    ),
                ),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[("scheduled", "Scheduled"), ("open", "Open"), ("ended", "Ended")],
                        db_index=True,
                        default="scheduled",
                        max_length=24,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Cohort",
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
                ("title", models.CharField(blank=True, max_length=120)),
            ],
        ),
        migrations.CreateModel(
            name="CohortCounter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("quota_milli", models.BigIntegerField(default=0)),
                ("used_milli", models.BigIntegerField(default=0)),
                ("guaranteed_milli", models.BigIntegerField(default=0)),
                (
                    "borrow_milli",
                    models.BigIntegerField(
                        help_text="How much the cohort may borrow from its parent; empty: no limit.",
                        null=True,
                    ),
                ),
                (
                    "lend_milli",
                    models.BigIntegerField(
                        help_text="How much the cohort lends to its parent; empty: all.", null=True
                    ),
                ),
                ("grandfathered_milli", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="DataSet",
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
                ("version", models.PositiveIntegerField()),
                ("zones", models.JSONField(default=list)),
                ("racks", models.JSONField(default=list)),
                ("nodes", models.JSONField(default=list)),
                ("storage", models.JSONField(default=list)),
                ("required", models.BooleanField(default=True)),
                ("declared_by", models.JSONField(default=dict)),
                ("retired_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Entitlement",
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
                ("until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="EnvelopeVersion",
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
                ("version", models.PositiveIntegerField()),
                ("nominal_milli", models.BigIntegerField()),
                ("borrow_milli", models.BigIntegerField(default=0)),
                ("lend_milli", models.BigIntegerField(null=True)),
                (
                    "on_excess",
                    models.CharField(
                        choices=[("grandfather", "Grandfather"), ("drain", "Drain")],
                        default="grandfather",
                        max_length=12,
                    ),
                ),
                ("drain_after_s", models.PositiveIntegerField(default=86400)),
                ("effective_from", models.DateTimeField()),
                ("applied_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("actor", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Invitation",
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
                ("email", models.EmailField(max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("admin", "Admin"),
                            ("member", "Member"),
                            ("viewer", "Viewer"),
                            ("billing", "Billing"),
                        ],
                        max_length=10,
                    ),
                ),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("invited_by", models.JSONField(default=dict)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="ProjectQuota",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("limit_milli", models.BigIntegerField()),
                ("used_milli", models.BigIntegerField(default=0)),
                ("grandfathered_milli", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="QuotaIncrease",
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
                ("nominal_before_milli", models.BigIntegerField()),
                ("nominal_asked_milli", models.BigIntegerField()),
                ("nominal_granted_milli", models.BigIntegerField(null=True)),
                ("justification", models.TextField()),
                ("asked_by", models.JSONField(default=dict)),
                ("decided_by", models.JSONField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_reason", models.TextField(blank=True)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("asked", "Asked"),
                            ("approved", "Approved"),
                            ("refused", "Refused"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        db_index=True,
                        default="asked",
                        max_length=24,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="ServiceAccount",
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
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("admin", "Admin"),
                            ("member", "Member"),
                            ("viewer", "Viewer"),
                            ("billing", "Billing"),
                        ],
                        max_length=10,
                    ),
                ),
                ("disabled_at", models.DateTimeField(null=True)),
                ("created_by", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="TenantCaps",
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
                    "allocations",
                    models.PositiveIntegerField(help_text="Live allocations at once.", null=True),
                ),
                ("slots_per_request", models.PositiveSmallIntegerField(null=True)),
                (
                    "waiting",
                    models.PositiveIntegerField(
                        help_text="Requests that may wait at once.", null=True
                    ),
                ),
                (
                    "best_band",
                    models.PositiveSmallIntegerField(
                        help_text="The most urgent priority band that may be asked for.", null=True
                    ),
                ),
                (
                    "shapes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=16),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "zones",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("spend_soft_micro", models.BigIntegerField(null=True)),
                ("spend_hard_micro", models.BigIntegerField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="TierAssignment",
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
                ("tier_version", models.PositiveIntegerField()),
                ("version", models.PositiveIntegerField()),
                ("preview", models.JSONField(default=dict)),
                ("reason", models.TextField()),
                ("actor", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="TierVersion",
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
                ("version", models.PositiveIntegerField()),
                ("terms", models.JSONField()),
                ("reason", models.TextField(blank=True)),
                ("actor", models.JSONField(default=dict)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="quotacounter",
            name="used_within_limit",
        ),
        migrations.AddField(
            model_name="envelope",
            name="borrow_milli",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="How much beyond nominal."
            ),
        ),
        migrations.AddField(
            model_name="envelope",
            name="lend_milli",
            field=models.BigIntegerField(
                help_text="How much of the nominal is lent when unused; empty: all.", null=True
            ),
        ),
        migrations.AddField(
            model_name="quotacounter",
            name="borrow_milli",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text="Beyond the limit, while the cohort has it; open bursts included.",
            ),
        ),
        migrations.AddField(
            model_name="quotacounter",
            name="guaranteed_milli",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="The part of the limit that is never lent."
            ),
        ),
        migrations.AddField(
            model_name="slatier",
            name="checkpoint_grace_s",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="slatier",
            name="credit_ladder",
            field=models.JSONField(
                db_default=models.Value([], models.JSONField()),
                default=list,
                help_text="[{below_ppm, credit_permille}], steepest last.",
            ),
        ),
        migrations.AddField(
            model_name="slatier",
            name="degradation_rank",
            field=models.PositiveSmallIntegerField(
                db_default=100,
                default=100,
                help_text="Lower degrades first when something has to give.",
            ),
        ),
        migrations.AddField(
            model_name="slatier",
            name="preemption",
            field=models.CharField(
                choices=[
                    ("never", "never"),
                    ("when_borrowing", "when_borrowing"),
                    ("by_band", "by_band"),
                ],
                db_default="never",
                default="never",
                help_text="When work of this tier may be preempted.",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="slatier",
            name="throughput_floor_permille",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Promised share of the expected throughput; 0 promises nothing.",
            ),
        ),
        migrations.AddField(
            model_name="slatier",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="tenant",
            name="catalogue",
            field=models.CharField(
                choices=[("all", "every published SKU"), ("listed", "only the SKUs listed")],
                db_default="all",
                default="all",
                help_text="Which SKUs the tenant may ask for.",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="suspension",
            field=models.CharField(
                choices=[("keep", "what runs goes on"), ("release", "what runs is released")],
                db_default="keep",
                default="keep",
                help_text="What happens to running work when the tenant is suspended.",
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tokens",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="envelope",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("borrow_milli__gte", 0),
                    models.Q(("lend_milli__isnull", True), ("lend_milli__gte", 0), _connector="OR"),
                ),
                name="borrow_and_lend_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotacounter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("used_milli__gte", 0),
                    ("grandfathered_milli__gte", 0),
                    (
                        "used_milli__lte",
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                models.F("limit_milli"), "+", models.F("borrow_milli")
                            ),
                            "+",
                            models.F("grandfathered_milli"),
                        ),
                    ),
                ),
                name="used_within_limit",
            ),
        ),
        migrations.AddField(
            model_name="breakglass",
            name="operator",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="breakglass",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant"
            ),
        ),
        migrations.AddField(
            model_name="burstrule",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="burstrule",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="bursts",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="cohort",
            name="parent",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="children",
                to="tenants.cohort",
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="cohort",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tenants",
                to="tenants.cohort",
            ),
        ),
        migrations.AddField(
            model_name="cohortcounter",
            name="cohort",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="counters",
                to="tenants.cohort",
            ),
        ),
        migrations.AddField(
            model_name="cohortcounter",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="dataset",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="datasets",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="entitlement",
            name="sku",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="tenants.sku"),
        ),
        migrations.AddField(
            model_name="entitlement",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="entitlements",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="envelopeversion",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="envelopeversion",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="envelope_versions",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="invitations",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="projectquota",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="quotas",
                to="tenants.project",
            ),
        ),
        migrations.AddField(
            model_name="projectquota",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="projectquota",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, to="tenants.tenant"
            ),
        ),
        migrations.AddField(
            model_name="quotaincrease",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="quotaincrease",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="increases",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="serviceaccount",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="service_accounts",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="service_account",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tokens",
                to="tenants.serviceaccount",
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("user__isnull", True), ("service_account__isnull", True), _connector="XOR"
                ),
                name="token_has_one_owner",
            ),
        ),
        migrations.AddField(
            model_name="tenantcaps",
            name="tenant",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="caps",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="tierassignment",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tier_assignments",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="tierassignment",
            name="tier",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.slatier"
            ),
        ),
        migrations.AddField(
            model_name="tierversion",
            name="tier",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="versions",
                to="tenants.slatier",
            ),
        ),
        migrations.AddConstraint(
            model_name="burstrule",
            constraint=models.CheckConstraint(
                condition=models.Q(("extra_milli__gt", 0), ("closes_at__gt", models.F("opens_at"))),
                name="burst_makes_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="cohort",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("parent__isnull", True),
                    models.Q(("parent", models.F("id")), _negated=True),
                    _connector="OR",
                ),
                name="no_cohort_in_itself",
            ),
        ),
        migrations.AddConstraint(
            model_name="cohortcounter",
            constraint=models.UniqueConstraint(
                fields=("cohort", "resource_class"), name="one_cohort_counter_per_class"
            ),
        ),
        migrations.AddConstraint(
            model_name="cohortcounter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("used_milli__gte", 0),
                    ("quota_milli__gte", 0),
                    ("guaranteed_milli__gte", 0),
                    ("grandfathered_milli__gte", 0),
                ),
                name="cohort_amounts_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.UniqueConstraint(
                fields=("tenant", "name", "version"), name="one_dataset_version"
            ),
        ),
        migrations.AddConstraint(
            model_name="entitlement",
            constraint=models.UniqueConstraint(fields=("tenant", "sku"), name="entitled_once"),
        ),
        migrations.AddIndex(
            model_name="envelopeversion",
            index=models.Index(
                condition=models.Q(("applied_at__isnull", True)),
                fields=["effective_from"],
                name="envelope_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="envelopeversion",
            constraint=models.UniqueConstraint(
                fields=("tenant", "resource_class", "version"), name="one_envelope_version"
            ),
        ),
        migrations.AddConstraint(
            model_name="projectquota",
            constraint=models.UniqueConstraint(
                fields=("project", "resource_class"), name="one_project_quota_per_class"
            ),
        ),
        migrations.AddConstraint(
            model_name="projectquota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("used_milli__gte", 0),
                    ("limit_milli__gte", 0),
                    (
                        "used_milli__lte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("limit_milli"), "+", models.F("grandfathered_milli")
                        ),
                    ),
                ),
                name="project_within_limit",
            ),
        ),
        migrations.AddConstraint(
            model_name="serviceaccount",
            constraint=models.UniqueConstraint(
                fields=("tenant", "name"), name="one_service_account_name"
            ),
        ),
        migrations.AddConstraint(
            model_name="tierassignment",
            constraint=models.UniqueConstraint(
                fields=("tenant", "version"), name="one_tier_assignment"
            ),
        ),
        migrations.AddConstraint(
            model_name="tierversion",
            constraint=models.UniqueConstraint(fields=("tier", "version"), name="one_tier_version"),
        ),
        migrations.AddConstraint(
            model_name="breakglass",
            constraint=models.CheckConstraint(
                condition=models.Q(("until__gt", models.F("created_at"))),
                name="break_glass_has_an_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.UniqueConstraint(
                models.F("tenant"),
                django.db.models.functions.text.Lower("email"),
                condition=models.Q(("accepted_at__isnull", True), ("revoked_at__isnull", True)),
                name="one_open_invitation",
            ),
        ),
    ]
