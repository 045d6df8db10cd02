"""What few requests meet, in functions of its own."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("placement", "0010_telemetry_and_identity"), ("tenants", "0008_storage")]

    operations = [
        migrations.RunSQL(
            (SQL / "looks_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_held(int, int, text); DROP FUNCTION placement_usage(uuid); "
            "DROP FUNCTION placement_datasets(uuid, text[]); "
            "DROP FUNCTION placement_terms(text, text, text); DROP FUNCTION placement_stores();",
        ),
    ]
