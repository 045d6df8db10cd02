"""A commit takes the idempotency key of the request that it carries out."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"
_DROP = (
    "DROP FUNCTION placement_commit(jsonb, int[], int[], bigint[], bigint[], jsonb, jsonb, "
    "boolean, jsonb{more});"
)


def _former() -> str:
    """The commit of before; what it calls has stayed."""
    text = (SQL / "commit_v4.sql").read_text(encoding="utf-8")
    _, body = text.split("CREATE OR REPLACE FUNCTION placement_commit(")
    return f"CREATE FUNCTION placement_commit({body}"


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0025_release_function"),
        ("kernel", "0001_initial"),
    ]

    operations = [
        # Code that knows no key calls it with nine values still.
        migrations.RunSQL(
            _DROP.format(more="") + (SQL / "commit_v5.sql").read_text(encoding="utf-8"),
            _DROP.format(more=", jsonb") + _former(),
        ),
    ]
