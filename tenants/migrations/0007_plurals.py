from django.db import migrations


class Migration(migrations.Migration):
    """How the rows are called in lists."""

    dependencies = [("tenants", "0006_lean_indexes")]

    operations = [
        migrations.AlterModelOptions(
            name="resourceclass", options={"verbose_name_plural": "resource classes"}
        ),
        migrations.AlterModelOptions(
            name="tenantcaps", options={"verbose_name_plural": "tenant caps"}
        ),
        migrations.AlterModelOptions(
            name="breakglass", options={"verbose_name": "break-glass window"}
        ),
    ]
