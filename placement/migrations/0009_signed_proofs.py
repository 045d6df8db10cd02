from django.db import migrations, models


class Migration(migrations.Migration):
    """A proof keeps its node's signature, so that it can be checked again at any time."""

    dependencies = [("placement", "0008_placement_terms")]

    operations = [
        migrations.AddField(
            model_name="cleanupproof",
            name="signature",
            field=models.CharField(blank=True, db_default="", max_length=88),
        ),
        migrations.AddField(
            model_name="cleanupproof",
            name="signed_by",
            field=models.CharField(blank=True, db_default="", max_length=44),
        ),
    ]
