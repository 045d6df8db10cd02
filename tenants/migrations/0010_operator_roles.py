from typing import Any

from django.db import migrations, models


def keep_all_rights(apps: Any, schema_editor: Any) -> None:
    """Whoever is an operator could do everything until now."""
    people = apps.get_model("tenants", "User")
    people.objects.filter(is_staff=True, operator_role="").update(operator_role="administrator")


class Migration(migrations.Migration):
    """Operators have roles; those who are operators already keep every right."""

    dependencies = [("tenants", "0009_sku_parts")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="operator_role",
            field=models.CharField(
                blank=True,
                choices=[
                    ("viewer", "Viewer"),
                    ("operator", "Operator"),
                    ("approver", "Approver"),
                    ("administrator", "Administrator"),
                ],
                db_default="",
                default="",
                help_text="Empty: nothing, even for an operator.",
                max_length=16,
            ),
        ),
        migrations.RunPython(keep_all_rights, migrations.RunPython.noop),
    ]
