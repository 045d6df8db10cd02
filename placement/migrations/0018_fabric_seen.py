"""The NVLink domain that a host's GPUs have moved to under its claims, and two more differences."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
CODES = (
    "address_changed",
    "bundle_changed",
    "card_swapped",
    "card_vanished",
    "card_added",
    "card_elsewhere",
    "uuid_unknown",
    "duplicate_uuid",
    "iommu_shared",
    "fabric_changed",
    "host_cloned",
    "host_renamed",
    "new_boot",
)


class Migration(migrations.Migration):
    dependencies = [("placement", "0017_defragmentation")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="fabric_seen",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="Another NVLink domain that its GPUs are in now, while its claims are "
                "of before.",
                max_length=80,
            ),
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("fabric_seen", ""), _negated=True),
                fields=["fabric_seen"],
                name="node_fabric_seen",
            ),
        ),
        migrations.AlterField(
            model_name="identitydifference",
            name="code",
            field=models.CharField(choices=[(one, one) for one in CODES], max_length=32),
        ),
        migrations.RunSQL(
            (SQL / "held_v2.sql").read_text(encoding="utf-8"),
            (SQL / "held_v1.sql").read_text(encoding="utf-8"),
        ),
    ]
