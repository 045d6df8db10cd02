import django.db.models.deletion
from django.db import migrations, models

KEPT = "admission_tenantless_kept"
"""Where rows wait that the tables before cannot hold: refused signups, and their decisions."""
TABLES = ("admission_admissionrequest", "admission_decision")
# What has no tenant, project or tier, with every decision on it; children first.
SET_ASIDE = f"""
SET CONSTRAINTS ALL IMMEDIATE;
CREATE TABLE IF NOT EXISTS {KEPT} (place int, name text, row jsonb);
INSERT INTO {KEPT}
SELECT 2, 'admission_decision', to_jsonb(d) FROM admission_decision d
 WHERE d.tenant_id IS NULL OR d.request_id IN (
       SELECT id FROM admission_admissionrequest
        WHERE tenant_id IS NULL OR project_id IS NULL OR tier_id IS NULL);
INSERT INTO {KEPT}
SELECT 1, 'admission_admissionrequest', to_jsonb(r) FROM admission_admissionrequest r
 WHERE tenant_id IS NULL OR project_id IS NULL OR tier_id IS NULL;
DELETE FROM admission_decision d USING {KEPT} k
 WHERE k.place = 2 AND d.id = (k.row ->> 'id')::uuid;
DELETE FROM admission_admissionrequest r USING {KEPT} k
 WHERE k.place = 1 AND r.id = (k.row ->> 'id')::uuid;
SET CONSTRAINTS ALL DEFERRED;
"""
BROUGHT_BACK = f"""
DO $$
DECLARE one record;
BEGIN
    IF to_regclass('{KEPT}') IS NULL THEN RETURN; END IF;
    FOR one IN SELECT * FROM {KEPT} ORDER BY place LOOP
        EXECUTE format('INSERT INTO %I SELECT * FROM jsonb_populate_record(NULL::%I, $1)',
                       one.name, one.name) USING one.row;
    END LOOP;
    DROP TABLE {KEPT};
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0005_lean_indexes"),
        ("tenants", "0006_lean_indexes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="admissionrequest",
            name="project",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, to="tenants.project"
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                help_text="Empty while a signup has not made one: then only the platform sees it.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="requests",
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="tier",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.slatier",
            ),
        ),
        migrations.AlterField(
            model_name="decision",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="admissionrequest",
            index=models.Index(
                condition=models.Q(
                    ("action__in", ("tenant.signup", "tenant.delete", "quota.increase"))
                ),
                fields=["subject_id"],
                name="change_subject",
            ),
        ),
        migrations.AddConstraint(
            model_name="admissionrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action", "tenant.signup"),
                    models.Q(
                        ("action__in", ("tenant.signup", "tenant.delete", "quota.increase")),
                        ("tenant__isnull", False),
                    ),
                    models.Q(
                        ("project__isnull", False),
                        ("tenant__isnull", False),
                        ("tier__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="request_has_an_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="admissionrequest",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("action__in", ("tenant.signup", "tenant.delete", "quota.increase")),
                    ("state__in", ("received", "queued")),
                ),
                fields=("subject_id",),
                name="one_open_change",
            ),
        ),
        # Taken back, this goes first: what the older tables cannot hold is set aside, and comes
        # back with the way forward.
        migrations.RunSQL(BROUGHT_BACK, SET_ASIDE),
    ]
