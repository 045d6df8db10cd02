from django.contrib.postgres.indexes import BrinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    """Decisions are counted by time. The index is built beside running work."""

    atomic = False
    dependencies = [("admission", "0007_one_open_change_of_a_kind")]

    operations = [
        AddIndexConcurrently(
            "decision",
            BrinIndex(fields=["created_at"], name="decision_when", pages_per_range=32),
        ),
    ]
