"""Links between the GPUs of a host in its layout, from what it reported last."""

from typing import Any

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from placement.domain.links import links_between, with_links


def read(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Hosts whose links were read have them in their layout; other columns stay."""
    node: Any = apps.get_model("placement", "Node")
    slot: Any = apps.get_model("placement", "Slot")
    told = node.objects.exclude(layout="").exclude(topology__nvlinks=[])
    for row in told.filter(topology__has_key="nvlinks").only("layout", "topology").iterator(200):
        links = links_between(row.topology)
        if links is None:
            continue
        slots = slot.objects.filter(node_id=row.pk).exclude(state="retired")
        at = dict(slots.values_list("gpu_uuid", "index"))
        pairs = {
            (min(at[one], at[other]), max(at[one], at[other])): count
            for (one, other), count in links.items()
            if one in at and other in at
        }
        node.objects.filter(pk=row.pk, layout=row.layout).update(
            layout=with_links(row.layout, pairs)
        )


def forget(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Layouts without links, as they were."""
    node: Any = apps.get_model("placement", "Node")
    for row in node.objects.exclude(layout="").only("layout").iterator(2000):
        node.objects.filter(pk=row.pk).update(layout=with_links(row.layout, None))


class Migration(migrations.Migration):
    """Old code does not look at the fifth part of a slot."""

    dependencies = [
        ("placement", "0022_room_for_a_request"),
    ]

    operations = [
        migrations.AlterField(
            model_name="node",
            name="layout",
            field=models.CharField(
                blank=True,
                help_text="numa.switch.domain.nic.links of each slot, joined by |.",
                max_length=3200,
            ),
        ),
        migrations.RunPython(read, forget),
    ]
