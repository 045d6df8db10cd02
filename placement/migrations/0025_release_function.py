"""The function through which allocations begin to be given back, one or many together."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0024_burn_ins_that_stop"),
        ("kernel", "0005_sweeps_and_retention"),
    ]

    operations = [
        migrations.RunSQL(
            (SQL / "release_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_release(jsonb, jsonb, jsonb, jsonb, jsonb, timestamptz); "
            "DROP TYPE placement_leaving",
        ),
    ]
