import django.db.models.deletion
from django.db import migrations, models


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
    ]
