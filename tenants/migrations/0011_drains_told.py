from django.db import migrations, models


class Migration(migrations.Migration):
    """A drain that was announced stays due, so that a sweep finds what it has left."""

    dependencies = [("tenants", "0010_operator_roles")]

    operations = [
        migrations.AddField(
            model_name="quotacounter",
            name="drain_told_at",
            field=models.DateTimeField(
                help_text="When it was last said how much has to go.", null=True
            ),
        ),
    ]
