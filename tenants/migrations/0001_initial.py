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
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="ResourceClass",
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
                ("title", models.CharField(max_length=120)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="SlaTier",
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
                ("name", models.SlugField(max_length=40, unique=True)),
                ("title", models.CharField(max_length=120)),
                ("priority_band", models.PositiveSmallIntegerField(help_text="0 goes first.")),
                ("preemptible", models.BooleanField()),
                ("protected_run_s", models.PositiveIntegerField(default=0)),
                (
                    "isolation",
                    models.CharField(
                        choices=[
                            ("shared", "shared"),
                            ("mig", "mig"),
                            ("gpu", "gpu"),
                            ("vm", "vm"),
                            ("node", "node"),
                            ("cluster", "cluster"),
                        ],
                        default="vm",
                        max_length=16,
                    ),
                ),
                (
                    "availability_ppm",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Promised availability in parts per million; 0 promises nothing.",
                    ),
                ),
                ("provision_target_s", models.PositiveIntegerField(default=600)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                ),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "id",
                    models.UUIDField(
                        default=gpuaas.kernel.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("full_name", models.CharField(blank=True, max_length=120)),
                ("is_active", models.BooleanField(default=True)),
                ("is_staff", models.BooleanField(default=False, verbose_name="operator")),
                (
                    "theme",
                    models.CharField(
                        choices=[("auto", "auto"), ("light", "light"), ("dark", "dark")],
                        default="auto",
                        max_length=8,
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Sku",
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
                ("name", models.SlugField(max_length=60, unique=True)),
                ("title", models.CharField(max_length=120)),
                ("description", models.TextField(blank=True)),
                (
                    "shape",
                    models.CharField(
                        choices=[("baremetal", "Baremetal"), ("gpu_slice", "Gpu Slice")],
                        max_length=16,
                    ),
                ),
                ("family", models.SlugField(help_text="Node family, by its name.", max_length=60)),
                (
                    "pool",
                    models.SlugField(
                        default="default", help_text="Pool, by its name.", max_length=60
                    ),
                ),
                (
                    "units_milli",
                    models.PositiveIntegerField(
                        default=1000,
                        help_text="Quota for one slot (or one node), in thousandths of the class.",
                    ),
                ),
                ("slots_min", models.PositiveSmallIntegerField(default=1)),
                ("slots_max", models.PositiveSmallIntegerField(default=8)),
                (
                    "exclusive_nic",
                    models.BooleanField(
                        default=False,
                        help_text="Every slot must have a NIC that it shares with no other slot.",
                    ),
                ),
                ("isolation", models.CharField(default="vm", max_length=16)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("draft", "Draft"),
                            ("published", "Published"),
                            ("retired", "Retired"),
                        ],
                        db_index=True,
                        default="draft",
                        max_length=24,
                    ),
                ),
                (
                    "resource_class",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SkuPrice",
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
                    "hour_micro",
                    models.BigIntegerField(
                        help_text="Millionths of the currency, per unit and hour."
                    ),
                ),
                ("currency", models.CharField(default="USD", max_length=3)),
                (
                    "effective_from",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prices",
                        to="tenants.sku",
                    ),
                ),
            ],
            options={
                "ordering": ["-effective_from"],
            },
        ),
        migrations.CreateModel(
            name="Tenant",
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
                ("slug", models.SlugField(max_length=60, unique=True)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("pending", "Pending"),
                            ("active", "Active"),
                            ("suspended", "Suspended"),
                            ("deleting", "Deleting"),
                            ("deleted", "Deleted"),
                            ("rejected", "Rejected"),
                        ],
                        db_index=True,
                        default="pending",
                        max_length=24,
                    ),
                ),
                ("state_reason", models.TextField(blank=True)),
                (
                    "tier",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.slatier"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="SshKey",
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
                ("public_key", models.TextField(max_length=8192)),
                ("fingerprint", models.CharField(max_length=64)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ssh_keys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ssh_keys",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QuotaCounter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("limit_milli", models.BigIntegerField(default=0)),
                ("used_milli", models.BigIntegerField(default=0)),
                ("grandfathered_milli", models.BigIntegerField(default=0)),
                (
                    "admitting",
                    models.BooleanField(
                        default=True,
                        help_text="False while the tenant is not active; read under this row's lock, so that "
                        "a suspension and a placement beside it are in one order or the other.",
                    ),
                ),
                (
                    "resource_class",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="counters",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Project",
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
                ("slug", models.SlugField(max_length=60)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="projects",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Member",
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
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Envelope",
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
                ("nominal_milli", models.BigIntegerField()),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "resource_class",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="envelopes",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApiToken",
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
                ("key", models.CharField(max_length=12, unique=True)),
                ("digest", models.BinaryField(max_length=32)),
                ("pepper", models.CharField(max_length=16)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=60),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, to="tenants.project"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                django.db.models.functions.text.Lower("email"),
                name="user_email_once",
                violation_error_message="An account with this address exists already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="sku",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("slots_min__gte", 1),
                    ("slots_min__lte", models.F("slots_max")),
                    ("units_milli__gt", 0),
                ),
                name="sku_sizes_make_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="skuprice",
            constraint=models.CheckConstraint(
                condition=models.Q(("hour_micro__gte", 0)), name="price_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="skuprice",
            constraint=models.UniqueConstraint(
                fields=("sku", "effective_from"), name="one_price_at_a_time"
            ),
        ),
        migrations.AddConstraint(
            model_name="sshkey",
            constraint=models.UniqueConstraint(
                fields=("tenant", "fingerprint"),
                name="ssh_key_once_per_tenant",
                violation_error_message="This key has been added already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotacounter",
            constraint=models.UniqueConstraint(
                fields=("tenant", "resource_class"), name="one_counter_per_class"
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
                            models.F("limit_milli"), "+", models.F("grandfathered_milli")
                        ),
                    ),
                ),
                name="used_within_limit",
            ),
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.UniqueConstraint(
                fields=("tenant", "slug"),
                name="project_slug_once_per_tenant",
                violation_error_message="A project of this name exists already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="member",
            constraint=models.UniqueConstraint(
                fields=("tenant", "user"), name="one_role_per_member"
            ),
        ),
        migrations.AddConstraint(
            model_name="envelope",
            constraint=models.UniqueConstraint(
                fields=("tenant", "resource_class"), name="one_envelope_per_class"
            ),
        ),
        migrations.AddConstraint(
            model_name="envelope",
            constraint=models.CheckConstraint(
                condition=models.Q(("nominal_milli__gte", 0)), name="nominal_not_negative"
            ),
        ),
        migrations.AddIndex(
            model_name="apitoken",
            index=models.Index(
                condition=models.Q(("revoked_at__isnull", True)),
                fields=["tenant", "user"],
                name="token_live",
            ),
        ),
    ]
