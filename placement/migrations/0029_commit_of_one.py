"""The function that commits one placement by itself."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0028_terms_removed"),
    ]

    operations = [
        migrations.RunSQL(
            (SQL / "commit_one_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_commit_one(jsonb, int[], bigint[], bigint[], jsonb, jsonb)",
        ),
    ]
