from django.db import migrations, models


class Migration(migrations.Migration):
    """Pools and kinds of hosts may end, and are kept for what was."""

    dependencies = [("placement", "0029_commit_of_one")]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="retired_at",
            field=models.DateTimeField(help_text="No host comes into it any more.", null=True),
        ),
        migrations.AddField(
            model_name="nodefamily",
            name="retired_at",
            field=models.DateTimeField(help_text="No host is approved as it any more.", null=True),
        ),
    ]
