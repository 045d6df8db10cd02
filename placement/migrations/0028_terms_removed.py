"""Terms of fitness that were removed: those of every family, or the product's, hold again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0027_finish_function"),
    ]

    operations = [
        migrations.AddField(
            model_name="readinessterms",
            name="removed",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="They hold no more; the row keeps the versions together.",
            ),
        ),
    ]
