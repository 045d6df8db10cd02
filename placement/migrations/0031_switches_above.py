"""In a host's layout the switch above those that its slots hang on, where it joins some of them."""

from collections import Counter
from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

FORGET = r"""
UPDATE placement_node SET layout = regexp_replace(
       layout, '(^|\|)([^.|]*\.[^.|:]*):[^.|]*', '\1\2', 'g')
 WHERE position(':' in layout) > 0
"""


def tops_of(switches: list[dict[str, Any]], leaves: set[str]) -> dict[str, str]:
    """The uppermost switch above each of these, where it joins several of them."""
    parents = {one["id"]: one.get("parent") for one in switches}
    tops = {}
    for leaf in leaves:
        chain, above = [leaf], parents.get(leaf)
        while above and above not in chain and not above.startswith("host-bridge-"):
            chain.append(above)
            above = parents.get(above)
        tops[leaf] = chain[-1]
    joined = Counter(tops.values())
    return {leaf: top for leaf, top in tops.items() if top != leaf and joined[top] > 1}


def read(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Hosts whose approved slots hang on switches of switches say so."""
    node: Any = apps.get_model("placement", "Node")
    slot: Any = apps.get_model("placement", "Slot")
    rows = node.objects.exclude(layout="").filter(topology__switches__0__isnull=False)
    for row in rows.only("layout", "topology").iterator(200):
        slots = slot.objects.filter(node_id=row.pk).exclude(state="retired").exclude(switch="")
        of = dict(slots.values_list("index", "switch"))
        tops = tops_of(row.topology["switches"], set(of.values()))
        if not tops:
            continue
        parts = [part.split(".") for part in row.layout.split("|")]
        known = {of[k]: part[1] for k, part in enumerate(parts) if k in of}
        names = [field for part in parts for field in part[:4] if field.isdecimal()]
        fresh = max(map(int, names), default=0)
        for top in sorted(set(tops.values()) - set(known)):
            fresh += 1
            known[top] = str(fresh)
        for k, part in enumerate(parts):
            if k in of and of[k] in tops and part[1]:
                part[1] += f":{known[tops[of[k]]]}"
        layout = "|".join(".".join(part) for part in parts)
        node.objects.filter(pk=row.pk, layout=row.layout).update(layout=layout)


class Migration(migrations.Migration):
    """Old code takes ``leaf:top`` for the name of a leaf."""

    dependencies = [
        ("placement", "0030_stock_that_ends"),
    ]

    operations = [
        migrations.RunPython(read, migrations.RunPython.noop),
        migrations.RunSQL(migrations.RunSQL.noop, FORGET),
    ]
