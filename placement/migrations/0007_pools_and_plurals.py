from django.db import migrations, models


class Migration(migrations.Migration):
    """A pool remembers that its cycle broke; families have a plural."""

    dependencies = [("placement", "0006_slot_residue")]

    operations = [
        migrations.AlterModelOptions(
            name="nodefamily", options={"verbose_name_plural": "node families"}
        ),
        migrations.AddField(
            model_name="pool",
            name="cycle_broke_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="pool",
            name="cycle_trouble",
            field=models.CharField(blank=True, db_default="", max_length=80),
        ),
        migrations.AddField(
            model_name="pool",
            name="cycles_broken",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="How often its scheduling cycle broke."
            ),
        ),
    ]
