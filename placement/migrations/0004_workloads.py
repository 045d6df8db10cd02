import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("admission", "0004_authority"),
        ("placement", "0003_default_pool"),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="workload",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="admission.workload",
            ),
        ),
        migrations.AlterField(
            model_name="allocation",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="admission.admissionrequest",
            ),
        ),
    ]
