"""Burn-ins that were stopped and whose load is not known to be over: few, and asked for often."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0023_direct_links"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="nodetask",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True), ("state", "cancelled")),
                fields=["node"],
                name="task_stopping",
            ),
        ),
    ]
