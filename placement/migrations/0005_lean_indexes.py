import django.db.models.deletion
import django_fsm
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0005_lean_indexes"),
        ("placement", "0004_workloads"),
        ("tenants", "0006_lean_indexes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="allocation",
            name="sku",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"
            ),
        ),
        migrations.AlterField(
            model_name="allocation",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("placed", "Placed"),
                    ("provisioning", "Provisioning"),
                    ("active", "Active"),
                    ("preempting", "Preempting"),
                    ("releasing", "Releasing"),
                    ("cleanup_blocked", "Cleanup Blocked"),
                    ("released", "Released"),
                ],
                default="placed",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="allocation",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="node",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="claims",
                to="placement.node",
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="resource_class",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.resourceclass",
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("reserved", "Reserved"),
                    ("active", "Active"),
                    ("releasing", "Releasing"),
                    ("cleanup_blocked", "Cleanup Blocked"),
                    ("released", "Released"),
                ],
                default="reserved",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="claim",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="claimdevice",
            name="claim",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="devices",
                to="placement.claim",
            ),
        ),
        migrations.AlterField(
            model_name="node",
            name="family",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="nodes",
                to="placement.nodefamily",
            ),
        ),
        migrations.AlterField(
            model_name="node",
            name="pool",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="nodes",
                to="placement.pool",
            ),
        ),
        migrations.AlterField(
            model_name="node",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("enrolling", "Enrolling"),
                    ("inspecting", "Inspecting"),
                    ("verifying", "Verifying"),
                    ("ready", "Ready"),
                    ("maintenance", "Maintenance"),
                    ("quarantined", "Quarantined"),
                    ("retired", "Retired"),
                ],
                default="enrolling",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="nodetask",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("pending", "Pending"),
                    ("leased", "Leased"),
                    ("succeeded", "Succeeded"),
                    ("failed", "Failed"),
                    ("cancelled", "Cancelled"),
                ],
                default="pending",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="slot",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("candidate", "Candidate"),
                    ("verified", "Verified"),
                    ("approved", "Approved"),
                    ("blocked", "Blocked"),
                    ("retired", "Retired"),
                ],
                default="candidate",
                max_length=24,
            ),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(
                condition=models.Q(("state", "cleanup_blocked")),
                fields=["node"],
                name="allocation_blocked",
            ),
        ),
        # Rows that every claim or task rewrites: room on their pages, and an early vacuum.
        migrations.RunSQL(
            """
            ALTER TABLE placement_node SET (
                fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
                autovacuum_vacuum_threshold = 1000);
            ALTER TABLE placement_nodetask SET (
                fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,
                autovacuum_vacuum_threshold = 1000);
            """,
            """
            ALTER TABLE placement_node RESET (
                fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
            ALTER TABLE placement_nodetask RESET (
                fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
            """,
        ),
    ]
