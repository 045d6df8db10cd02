import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django_fsm
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

import gpuaas.kernel.ids
import placement.fields
import placement.models.node


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("admission", "0002_relations"),
        ("tenants", "0002_charge_function"),
    ]

    operations = [
        BtreeGistExtension(),
        migrations.RunSQL(
            "CREATE SEQUENCE placement_node_num AS integer",
            "DROP SEQUENCE placement_node_num",
        ),
        migrations.CreateModel(
            name="Image",
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
                ("shapes", models.JSONField(default=list)),
                ("reference", models.CharField(max_length=200)),
                ("username", models.CharField(default="ubuntu", max_length=32)),
                ("retired_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Node",
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
                    "num",
                    models.IntegerField(
                        db_default=placement.models.node.NextNumber(),
                        editable=False,
                        help_text="Integer key of the claim constraint.",
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=63, unique=True)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("enrolling", "Enrolling"),
                            ("inspecting", "Inspecting"),
                            ("verifying", "Verifying"),
                            ("ready", "Ready"),
                            ("maintenance", "Maintenance"),
                            ("quarantined", "Quarantined"),
                            ("retired", "Retired"),
                        ],
                        db_index=True,
                        default="enrolling",
                        max_length=24,
                    ),
                ),
                (
                    "intended",
                    models.CharField(
                        choices=[("slices", "Slices"), ("baremetal", "Baremetal"), ("any", "Any")],
                        default="any",
                        max_length=10,
                    ),
                ),
                ("zone", models.CharField(blank=True, max_length=40)),
                ("block", models.CharField(blank=True, max_length=40)),
                ("rack", models.CharField(blank=True, max_length=40)),
                ("generation", models.BigIntegerField(default=0)),
                ("slot_count", models.PositiveSmallIntegerField(default=0)),
                ("free_count", models.PositiveSmallIntegerField(default=0)),
                ("free_mask", models.BigIntegerField(default=0)),
                (
                    "exclusive_mask",
                    models.BigIntegerField(default=0, help_text="Slots whose NIC is theirs alone."),
                ),
                (
                    "layout",
                    models.CharField(
                        blank=True,
                        help_text="numa.switch.domain of each slot, joined by |.",
                        max_length=800,
                    ),
                ),
                ("schedulable", models.BooleanField(default=False)),
                ("boot_id", models.CharField(blank=True, max_length=64)),
                ("agent_version", models.CharField(blank=True, max_length=40)),
                ("last_seen_at", models.DateTimeField(null=True)),
                (
                    "health",
                    models.CharField(
                        choices=[("ok", "Ok"), ("degraded", "Degraded"), ("unknown", "Unknown")],
                        default="unknown",
                        max_length=10,
                    ),
                ),
                ("conditions", models.JSONField(default=list)),
                ("observed", models.JSONField(default=dict)),
                ("observed_at", models.DateTimeField(null=True)),
                ("observed_seq", models.BigIntegerField(default=0)),
                ("topology", models.JSONField(default=dict)),
                ("topology_at", models.DateTimeField(null=True)),
                ("projected", models.JSONField(default=dict)),
                ("projected_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="NodeFamily",
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
                ("gpu_model", models.CharField(blank=True, max_length=80)),
                ("slots", models.PositiveSmallIntegerField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Pool",
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
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Allocation",
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
                ("shape", models.CharField(max_length=16)),
                ("slots", models.PositiveSmallIntegerField(help_text="0 means the whole node.")),
                ("tier", models.CharField(max_length=40)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("placed", "Placed"),
                            ("provisioning", "Provisioning"),
                            ("active", "Active"),
                            ("preempting", "Preempting"),
                            ("releasing", "Releasing"),
                            ("cleanup_blocked", "Cleanup Blocked"),
                            ("released", "Released"),
                        ],
                        db_index=True,
                        default="placed",
                        max_length=24,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("ended", "Ended"),
                            ("cancelled", "Cancelled"),
                            ("failed", "Failed"),
                            ("preempted", "Preempted"),
                            ("evicted", "Evicted"),
                            ("expired", "Expired"),
                        ],
                        max_length=12,
                    ),
                ),
                ("outcome_code", models.CharField(blank=True, max_length=64)),
                ("outcome_detail", models.TextField(blank=True)),
                (
                    "run_id",
                    models.UUIDField(help_text="The run that is working on it, or worked last."),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("image", models.CharField(max_length=60)),
                ("hostname", models.CharField(max_length=63)),
                ("ssh_keys", models.JSONField(default=list)),
                ("connection", models.JSONField(null=True)),
                (
                    "observed",
                    models.CharField(
                        choices=[
                            ("present", "Present"),
                            ("absent", "Absent"),
                            ("unknown", "Unknown"),
                        ],
                        default="unknown",
                        max_length=8,
                    ),
                ),
                ("observed_detail", models.CharField(blank=True, max_length=200)),
                ("observed_at", models.DateTimeField(null=True)),
                ("price_hour_micro", models.BigIntegerField()),
                ("currency", models.CharField(default="USD", max_length=3)),
                ("active_at", models.DateTimeField(null=True)),
                ("release_asked_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.project"
                    ),
                ),
                (
                    "request",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, to="admission.admissionrequest"
                    ),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="tenants.tenant",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="placement.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Claim",
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
                ("node_num", models.IntegerField()),
                ("slot_index", models.SmallIntegerField(help_text="-1 for the whole node.")),
                ("span", placement.fields.SpanField()),
                ("amount_milli", models.BigIntegerField()),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("reserved", "Reserved"),
                            ("active", "Active"),
                            ("releasing", "Releasing"),
                            ("cleanup_blocked", "Cleanup Blocked"),
                            ("released", "Released"),
                        ],
                        db_index=True,
                        default="reserved",
                        max_length=24,
                    ),
                ),
                (
                    "holder",
                    models.CharField(
                        choices=[("tenant", "tenant"), ("platform", "platform")],
                        default="tenant",
                        max_length=8,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("boot_id", models.CharField(blank=True, max_length=64)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "allocation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="claims",
                        to="placement.allocation",
                    ),
                ),
                (
                    "resource_class",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="tenants.resourceclass",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="tenants.tenant",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="claims",
                        to="placement.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CleanupOverride",
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
                ("asked_by", models.JSONField()),
                ("approved_by", models.JSONField(null=True)),
                ("approved_at", models.DateTimeField(null=True)),
                (
                    "claim",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="override",
                        to="placement.claim",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="JoinToken",
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
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                ("used_key", models.CharField(blank=True, max_length=64)),
                ("created_by", models.JSONField(default=dict)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="join_tokens",
                        to="placement.node",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="NodeCredential",
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
                ("public_key", models.CharField(max_length=64)),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_sequence", models.BigIntegerField(default=0)),
                ("last_seen_at", models.DateTimeField(null=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="credentials",
                        to="placement.node",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="NodeDrain",
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
                ("slot_index", models.PositiveSmallIntegerField(null=True)),
                ("owner", models.JSONField(default=dict)),
                ("reason", models.TextField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="drains",
                        to="placement.node",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="node",
            name="family",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="nodes",
                to="placement.nodefamily",
            ),
        ),
        migrations.CreateModel(
            name="NodeTask",
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
                ("kind", models.CharField(max_length=40)),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("pending", "Pending"),
                            ("leased", "Leased"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_index=True,
                        default="pending",
                        max_length=24,
                    ),
                ),
                ("params", models.JSONField(default=dict)),
                ("claim_attempt", models.PositiveIntegerField(default=1)),
                (
                    "attempt",
                    models.PositiveIntegerField(default=0, help_text="How often it was leased."),
                ),
                ("max_attempts", models.PositiveSmallIntegerField(default=5)),
                ("lease_epoch", models.BigIntegerField(default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("boot_id", models.CharField(blank=True, max_length=64)),
                (
                    "due_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("deadline_at", models.DateTimeField(null=True)),
                ("step", models.CharField(blank=True, max_length=60)),
                ("percent", models.PositiveSmallIntegerField(null=True)),
                ("result", models.JSONField(null=True)),
                ("evidence", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("run_id", models.UUIDField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "allocation",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="placement.allocation",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="placement.node",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="node",
            name="pool",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="nodes",
                to="placement.pool",
            ),
        ),
        migrations.CreateModel(
            name="Slot",
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
                ("index", models.PositiveSmallIntegerField()),
                (
                    "state",
                    django_fsm.FSMField(
                        choices=[
                            ("candidate", "Candidate"),
                            ("verified", "Verified"),
                            ("approved", "Approved"),
                            ("blocked", "Blocked"),
                            ("retired", "Retired"),
                        ],
                        db_index=True,
                        default="candidate",
                        max_length=24,
                    ),
                ),
                ("gpu_uuid", models.CharField(max_length=80)),
                ("gpu_index", models.PositiveSmallIntegerField()),
                ("numa", models.PositiveSmallIntegerField(null=True)),
                ("switch", models.CharField(blank=True, max_length=120)),
                ("nvlink_domain", models.CharField(blank=True, max_length=120)),
                ("cpuset", models.TextField(blank=True)),
                ("memory_bytes", models.BigIntegerField(null=True)),
                ("nic", models.CharField(blank=True, max_length=120)),
                (
                    "nic_mode",
                    models.CharField(
                        choices=[
                            ("exclusive", "Exclusive"),
                            ("shared", "Shared"),
                            ("none", "None"),
                            ("unknown", "Unknown"),
                        ],
                        max_length=10,
                    ),
                ),
                ("nvme", models.CharField(blank=True, max_length=120)),
                (
                    "nvme_mode",
                    models.CharField(
                        choices=[
                            ("exclusive", "Exclusive"),
                            ("shared", "Shared"),
                            ("none", "None"),
                            ("unknown", "Unknown"),
                        ],
                        default="unknown",
                        max_length=10,
                    ),
                ),
                (
                    "devices",
                    models.JSONField(
                        default=dict,
                        help_text="What is handed over with the slot, as a node task names it.",
                    ),
                ),
                (
                    "device_uids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=160),
                        default=list,
                        help_text="The identities that a claim holds alone: gpu:…, nic:…, nvme:….",
                        size=None,
                    ),
                ),
                ("block_reason", models.CharField(blank=True, max_length=200)),
                ("block_owner", models.JSONField(null=True)),
                ("approved_by", models.JSONField(null=True)),
                ("approved_at", models.DateTimeField(null=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slots",
                        to="placement.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CleanupProof",
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
                ("attempt", models.PositiveIntegerField()),
                ("boot_id", models.CharField(max_length=64)),
                ("steps", models.JSONField()),
                ("complete", models.BooleanField()),
                ("missing", models.JSONField(default=list)),
                (
                    "claim",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proofs",
                        to="placement.claim",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="placement.nodetask"
                    ),
                ),
                (
                    "slot",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, to="placement.slot"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="claim",
            name="slot",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="placement.slot",
            ),
        ),
        migrations.CreateModel(
            name="TaskObservation",
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
                ("lease_epoch", models.BigIntegerField()),
                ("boot_id", models.CharField(max_length=64)),
                ("outcome", models.CharField(max_length=12)),
                ("payload", models.JSONField()),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observations",
                        to="placement.nodetask",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="ClaimDevice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "uid",
                    models.CharField(help_text="kind:identity, such as gpu:GPU-…", max_length=160),
                ),
                ("live", models.BooleanField(default=True)),
                (
                    "claim",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="devices",
                        to="placement.claim",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("live", True)), fields=("uid",), name="device_held_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="GpuDevice",
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
                ("uuid", models.CharField(max_length=80)),
                ("uuid_source", models.CharField(blank=True, max_length=20)),
                ("index", models.PositiveSmallIntegerField()),
                ("pci", models.CharField(blank=True, max_length=20)),
                ("model", models.CharField(blank=True, max_length=200)),
                ("memory_bytes", models.BigIntegerField(null=True)),
                ("numa", models.PositiveSmallIntegerField(null=True)),
                ("switch", models.CharField(blank=True, max_length=120)),
                ("seen_at", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="gpus",
                        to="placement.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("uuid",), name="gpu_is_in_one_node")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["tenant", "-created_at"], name="allocation_tenant"),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(
                condition=models.Q(("state", "released"), _negated=True),
                fields=["node"],
                name="allocation_live",
            ),
        ),
        migrations.AddConstraint(
            model_name="nodedrain",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("node", "slot_index"),
                name="one_open_drain",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="nodetask",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "leased"])),
                fields=["node", "due_at"],
                name="task_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="nodetask",
            index=models.Index(
                condition=models.Q(("state", "leased")), fields=["lease_until"], name="task_lease"
            ),
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("schedulable", True)),
                fields=["pool", "family", "free_count", "num"],
                name="node_free",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(("free_mask__gte", 0), ("slot_count__lte", 62)),
                name="slots_fit_the_mask",
            ),
        ),
        migrations.AddConstraint(
            model_name="slot",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "retired"), _negated=True),
                fields=("node", "index"),
                name="slot_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="slot",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "retired"), _negated=True),
                fields=("gpu_uuid",),
                name="gpu_in_one_slot",
            ),
        ),
        migrations.AddConstraint(
            model_name="cleanupproof",
            constraint=models.UniqueConstraint(
                fields=("claim", "attempt"), name="one_proof_per_attempt"
            ),
        ),
        migrations.AddIndex(
            model_name="claim",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["reserved", "active", "releasing", "cleanup_blocked"])
                ),
                fields=["tenant", "resource_class"],
                name="claim_charged",
            ),
        ),
        migrations.AddIndex(
            model_name="claim",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["reserved", "active", "releasing", "cleanup_blocked"])
                ),
                fields=["node_num"],
                name="claim_live_node",
            ),
        ),
        migrations.AddConstraint(
            model_name="claim",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                condition=models.Q(
                    ("state__in", ["reserved", "active", "releasing", "cleanup_blocked"])
                ),
                expressions=[("node_num", "="), ("span", "&&")],
                name="no_double_claim",
            ),
        ),
    ]
