from django.db import migrations, models

CHANGES = ("tenant.signup", "tenant.delete", "quota.increase")


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0006_changes_of_a_tenant"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="admissionrequest", name="one_open_change"),
        migrations.AddConstraint(
            model_name="admissionrequest",
            constraint=models.UniqueConstraint(
                condition=models.Q(("action__in", CHANGES), ("state__in", ("received", "queued"))),
                fields=("subject_id", "action"),
                name="one_open_change_of_a_kind",
            ),
        ),
    ]
