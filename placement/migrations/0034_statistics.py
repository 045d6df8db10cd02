"""The function that counts hosts anew where the planner takes them for nearly none."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0033_work_waits"),
    ]

    operations = [
        migrations.RunSQL(
            (SQL / "statistics_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_statistics_mend()",
        ),
    ]
