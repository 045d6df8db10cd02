"""The one place where quota is charged, callable from the placement's commit."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.RunSQL(
            (SQL / "charge_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION tenants_charge(uuid, uuid, bigint)",
        )
    ]
