"""Links between the GPUs of a host in its layout, from what it reported last."""

from collections import Counter
from itertools import combinations
from typing import Any

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
FORGET = r"""
UPDATE placement_node SET layout = regexp_replace(
       layout, '(^|\|)([^.|]*\.[^.|]*\.[^.|]*\.[^.|]*)\.[^|]*', '\1\2', 'g')
 WHERE layout <> ''
"""


def told(topology: dict[str, Any]) -> Counter[frozenset[str]]:
    """How many links any two GPUs have, by their UUIDs."""
    gpus = {gpu["pci"]: gpu for gpu in topology["gpus"] if gpu["pci"] and gpu["uuid"]}
    links: Counter[frozenset[str]] = Counter()
    switched: Counter[str] = Counter()
    for link in topology["nvlinks"]:
        mine = [end for end in (link["from"], link["to"]) if end in gpus]
        if len(mine) == 2:
            links[frozenset(gpus[end]["uuid"] for end in mine)] += link["count"] or 1
        elif mine:
            switched[mine[0]] += link["count"] or 1
    for one, other in combinations(switched, 2):
        domain = gpus[one]["nvlink_domain"]
        if domain and domain == gpus[other]["nvlink_domain"]:
            pair = frozenset((gpus[one]["uuid"], gpus[other]["uuid"]))
            links[pair] += min(switched[one], switched[other])
    return links


def read(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Hosts of which all links were read have them; a slot's digits are for those before it."""
    node: Any = apps.get_model("placement", "Node")
    slot: Any = apps.get_model("placement", "Slot")
    rows = node.objects.exclude(layout="").filter(topology__nvlinks__0__isnull=False)
    for row in rows.only("layout", "topology").iterator(200):
        if any(gpu.get("uuid_source") == "remembered" for gpu in row.topology["gpus"]):
            continue
        links, parts = told(row.topology), row.layout.split("|")
        slots = slot.objects.filter(node_id=row.pk).exclude(state="retired")
        uuid = dict(slots.values_list("index", "gpu_uuid"))
        for high in range(len(parts)):
            pairs = (frozenset((uuid.get(low, ""), uuid.get(high, ""))) for low in range(high))
            parts[high] += "." + "".join(DIGITS[min(links[pair], 35)] for pair in pairs)
        layout = "|".join(parts)
        node.objects.filter(pk=row.pk, layout=row.layout).update(layout=layout)


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
        migrations.RunPython(read, migrations.RunPython.noop),
        migrations.RunSQL(migrations.RunSQL.noop, FORGET),
    ]
