"""The function through which a refusal is written down."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("admission", "0002_relations"), ("kernel", "0002_delivery_order")]

    operations = [
        migrations.RunSQL(
            (SQL / "refuse_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION admission_refuse(jsonb, jsonb)",
        ),
    ]
