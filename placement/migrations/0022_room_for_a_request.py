"""Room that is made for one request that waits."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0021_fabric_commit"),
    ]

    operations = [
        migrations.AddField(
            model_name="defragmentation",
            name="for_request",
            field=models.UUIDField(
                help_text="The waiting request that gets the room; null: whoever is first.",
                null=True,
            ),
        ),
    ]
