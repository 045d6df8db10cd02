from django.db import migrations


class Migration(migrations.Migration):
    """How the rows are called in lists."""

    dependencies = [("kernel", "0003_lean_indexes")]

    operations = [
        migrations.AlterModelOptions(
            name="delivery", options={"verbose_name_plural": "deliveries"}
        ),
    ]
