"""The function that finds out whether anything waits for a host that asks."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0032_engines_of_parts"),
    ]

    operations = [
        migrations.RunSQL(
            (SQL / "work_waits_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_work_waits(uuid, timestamptz)",
        ),
    ]
