"""The function through which an allocation ends once its cleanup is proven."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("placement", "0026_commit_with_key")]

    operations = [
        migrations.RunSQL(
            (SQL / "finish_v1.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION placement_finish(uuid, jsonb, jsonb, text, text, uuid[], jsonb, "
            "timestamptz)",
        ),
    ]
