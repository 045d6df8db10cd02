import django.db.models.deletion
import django_fsm
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0004_authority"),
        ("tenants", "0006_lean_indexes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="admissionrequest",
            name="resource_class",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.resourceclass",
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="sku",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.sku",
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("received", "Received"),
                    ("queued", "Queued"),
                    ("admitted", "Admitted"),
                    ("denied", "Denied"),
                    ("withdrawn", "Withdrawn"),
                    ("expired", "Expired"),
                ],
                default="received",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="requests",
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="admissionrequest",
            name="tier",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, to="tenants.slatier"
            ),
        ),
        migrations.AlterField(
            model_name="decision",
            name="request",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="decisions",
                to="admission.admissionrequest",
            ),
        ),
        migrations.AlterField(
            model_name="decision",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="policyrule",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("draft", "Draft"),
                    ("dry_run", "Dry Run"),
                    ("active", "Active"),
                    ("retired", "Retired"),
                ],
                default="draft",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="workload",
            name="state",
            field=django_fsm.FSMField(
                choices=[
                    ("submitted", "Submitted"),
                    ("admitted", "Admitted"),
                    ("stopping", "Stopping"),
                    ("ended", "Ended"),
                ],
                default="submitted",
                max_length=24,
            ),
        ),
    ]
