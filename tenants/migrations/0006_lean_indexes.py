import django_fsm
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0005_quota_tree"),
    ]

    operations = [
        migrations.AlterField(
            model_name="burstrule",
            name="state",
            field=django_fsm.FSMField(
                choices=[("scheduled", "Scheduled"), ("open", "Open"), ("ended", "Ended")],
                default="scheduled",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="quotaincrease",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("asked", "Asked"),
                    ("approved", "Approved"),
                    ("refused", "Refused"),
                    ("withdrawn", "Withdrawn"),
                ],
                default="asked",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="sku",
            name="state",
            field=django_fsm.FSMField(
                choices=[("draft", "Draft"), ("published", "Published"), ("retired", "Retired")],
                default="draft",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("pending", "Pending"),
                    ("active", "Active"),
                    ("suspended", "Suspended"),
                    ("deleting", "Deleting"),
                    ("deleted", "Deleted"),
                    ("rejected", "Rejected"),
                ],
                default="pending",
                max_length=24,
            ),
        ),
        # The hottest rows: an update finds room on its own page and moves no index.
        migrations.RunSQL(
            """
            ALTER TABLE tenants_quotacounter SET (
                fillfactor = 30, autovacuum_vacuum_scale_factor = 0,
                autovacuum_vacuum_threshold = 2000);
            ALTER TABLE tenants_projectquota SET (
                fillfactor = 30, autovacuum_vacuum_scale_factor = 0,
                autovacuum_vacuum_threshold = 2000);
            """,
            """
            ALTER TABLE tenants_quotacounter RESET (
                fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
            ALTER TABLE tenants_projectquota RESET (
                fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
            """,
        ),
    ]
