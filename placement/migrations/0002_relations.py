import django.contrib.postgres.constraints
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("admission", "0002_relations"),
        ("placement", "0001_initial"),
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.project"
            ),
        ),
        migrations.AddField(
            model_name="allocation",
            name="request",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, to="admission.admissionrequest"
            ),
        ),
        migrations.AddField(
            model_name="allocation",
            name="sku",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"),
        ),
        migrations.AddField(
            model_name="allocation",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="claim",
            name="allocation",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="placement.allocation",
            ),
        ),
        migrations.AddField(
            model_name="claim",
            name="resource_class",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.resourceclass",
            ),
        ),
        migrations.AddField(
            model_name="claim",
            name="tenant",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, to="tenants.tenant"
            ),
        ),
        migrations.AddField(
            model_name="claimdevice",
            name="claim",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="devices",
                to="placement.claim",
            ),
        ),
        migrations.AddField(
            model_name="cleanupoverride",
            name="claim",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="override",
                to="placement.claim",
            ),
        ),
        migrations.AddField(
            model_name="cleanupproof",
            name="claim",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="proofs",
                to="placement.claim",
            ),
        ),
        migrations.AddField(
            model_name="jointoken",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="join_tokens",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="gpudevice",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="gpus",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="claim",
            name="node",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="allocation",
            name="node",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="nodecredential",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="credentials",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="nodedrain",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="drains",
                to="placement.node",
            ),
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
        migrations.AddField(
            model_name="nodetask",
            name="allocation",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tasks",
                to="placement.allocation",
            ),
        ),
        migrations.AddField(
            model_name="nodetask",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tasks",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="cleanupproof",
            name="task",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="placement.nodetask"
            ),
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
        migrations.AddField(
            model_name="slot",
            name="node",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="slots",
                to="placement.node",
            ),
        ),
        migrations.AddField(
            model_name="cleanupproof",
            name="slot",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, to="placement.slot"
            ),
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
        migrations.AddField(
            model_name="taskobservation",
            name="task",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="observations",
                to="placement.nodetask",
            ),
        ),
        migrations.AddConstraint(
            model_name="claimdevice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("live", True)), fields=("uid",), name="device_held_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="gpudevice",
            constraint=models.UniqueConstraint(fields=("uuid",), name="gpu_is_in_one_node"),
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
