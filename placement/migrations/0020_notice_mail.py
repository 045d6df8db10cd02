"""When a notice was sent by mail."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0019_evidence_and_health"),
    ]

    operations = [
        migrations.AddField(
            model_name="notice",
            name="mailed_at",
            field=models.DateTimeField(null=True),
        ),
    ]
