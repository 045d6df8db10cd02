"""A commit looks at both NVLink domains of a host that changes its domain under claims."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


def _former() -> str:
    """The commit of before, without what made room for it then."""
    text = (SQL / "commit_v3.sql").read_text(encoding="utf-8")
    _, body = text.split("CREATE FUNCTION placement_commit(")
    return (
        f"CREATE OR REPLACE FUNCTION placement_commit({body}"
        "DROP FUNCTION placement_fabrics_open(text[], int, uuid, int, placement_item[]);"
    )


class Migration(migrations.Migration):
    dependencies = [("placement", "0020_notice_mail")]

    operations = [
        # The function that looked at one domain stays: whoever commits meanwhile still calls it.
        migrations.RunSQL((SQL / "commit_v4.sql").read_text(encoding="utf-8"), _former()),
    ]
