"""The functions through which claims are made and a node's free capacity is recounted."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0001_initial"),
        ("tenants", "0002_charge_function"),
        ("kernel", "0002_delivery_order"),
    ]

    operations = [
        migrations.RunSQL(
            (SQL / "commit_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_commit(jsonb, int[], int[], bigint[], bigint[], jsonb, jsonb, "
            "boolean); DROP TYPE placement_item",
        ),
        migrations.RunSQL(
            (SQL / "recount_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_recount(uuid)",
        ),
    ]
