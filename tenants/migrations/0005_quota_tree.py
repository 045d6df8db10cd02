"""Quota in a tree: projects, tenants, cohorts; the functions that charge and give back."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
EVERY_DROP = """
DROP FUNCTION tenants_give_back(uuid, uuid, uuid, bigint);
DROP FUNCTION tenants_charge_many(uuid[], uuid[], uuid[], bigint[]);
DROP FUNCTION tenants_charge_one(uuid, uuid, uuid, bigint);
DROP FUNCTION tenants_charge_counter(uuid, uuid, bigint);
DROP FUNCTION tenants_charge_project(uuid, uuid, uuid, bigint);
DROP FUNCTION tenants_cohort_grow(uuid, uuid, bigint);
DROP FUNCTION tenants_refuse(uuid, text, bigint);
"""
# Who was there before had no cohort and no project's quota: all of its limit is its own, and
# what its projects hold is what their claims say, where claims exist already.
COUNTED = """
UPDATE tenants_quotacounter SET guaranteed_milli = limit_milli;
DO $$ BEGIN
    IF to_regclass('placement_claim') IS NOT NULL THEN
        INSERT INTO tenants_projectquota (
               tenant_id, project_id, resource_class_id, used_milli, grandfathered_milli)
        SELECT a.tenant_id, a.project_id, c.resource_class_id, sum(c.amount_milli), 0
          FROM placement_claim c JOIN placement_allocation a ON a.id = c.allocation_id
         WHERE c.state IN ('reserved', 'active', 'releasing') AND c.holder = 'tenant'
         GROUP BY a.tenant_id, a.project_id, c.resource_class_id;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_authority"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="project",
            name="project_slug_once_per_tenant",
        ),
        migrations.RemoveConstraint(
            model_name="projectquota",
            name="project_within_limit",
        ),
        migrations.RemoveIndex(
            model_name="envelopeversion",
            name="envelope_due",
        ),
        migrations.AddField(
            model_name="cohort",
            name="depth",
            field=models.PositiveSmallIntegerField(
                default=0,
                help_text="0 for a root. Parents never change, so counters lock by depth.",
            ),
        ),
        migrations.AddField(
            model_name="envelopeversion",
            name="cancelled_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="deleted_at",
            field=models.DateTimeField(help_text="Kept as a row for what refers to it.", null=True),
        ),
        migrations.AddField(
            model_name="quotacounter",
            name="cohort",
            field=models.ForeignKey(
                help_text="The tenant's cohort; here so that it is read under this row's lock.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.cohort",
            ),
        ),
        migrations.AddField(
            model_name="quotacounter",
            name="drain_at",
            field=models.DateTimeField(
                help_text="When what is held beyond the limit begins to be released.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="projectquota",
            name="grandfathered_milli",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="projectquota",
            name="limit_milli",
            field=models.BigIntegerField(help_text="Empty: only the tenant's limit.", null=True),
        ),
        migrations.AlterField(
            model_name="projectquota",
            name="used_milli",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="envelopeversion",
            index=models.Index(
                condition=models.Q(("applied_at__isnull", True), ("cancelled_at__isnull", True)),
                fields=["effective_from"],
                name="envelope_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at__isnull", True)),
                fields=("tenant", "slug"),
                name="project_slug_once_per_tenant",
                violation_error_message="A project of this name exists already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="projectquota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("used_milli__gte", 0),
                    ("grandfathered_milli__gte", 0),
                    models.Q(
                        ("limit_milli__isnull", True),
                        models.Q(
                            ("limit_milli__gte", 0),
                            (
                                "used_milli__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("limit_milli"), "+", models.F("grandfathered_milli")
                                ),
                            ),
                        ),
                        _connector="OR",
                    ),
                ),
                name="project_within_limit",
            ),
        ),
        migrations.RunSQL(
            (SQL / "charge_tree_v1.sql").read_text(encoding="utf-8"),
            EVERY_DROP + (SQL / "charge_v1.sql").read_text(encoding="utf-8"),
        ),
        migrations.RunSQL(
            (SQL / "give_back_v1.sql").read_text(encoding="utf-8"), migrations.RunSQL.noop
        ),
        migrations.RunSQL(COUNTED, migrations.RunSQL.noop),
    ]
