import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("admission", "0001_initial"),
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="admissionrequest",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.project"
            ),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="resource_class",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.resourceclass"
            ),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="sku",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="tenants.sku"),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="requests",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="admissionrequest",
            name="tier",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.slatier"
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="decisions",
                to="admission.admissionrequest",
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, to="tenants.tenant"
            ),
        ),
        migrations.AddIndex(
            model_name="admissionrequest",
            index=models.Index(
                condition=models.Q(("state", "queued")),
                fields=["pool", "band", "queued_at", "id"],
                name="request_queue",
            ),
        ),
        migrations.AddIndex(
            model_name="admissionrequest",
            index=models.Index(fields=["tenant", "-created_at"], name="request_tenant"),
        ),
        migrations.AddConstraint(
            model_name="admissionrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_milli__gt", 0)), name="request_takes_quota"
            ),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["request", "-created_at"], name="decision_of"),
        ),
    ]
