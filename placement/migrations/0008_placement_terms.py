from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids

SQL = Path(__file__).resolve().parent.parent / "sql"
NICS = """
UPDATE placement_node n
   SET generation = generation + 1, layout = (
       SELECT string_agg(part.layout || '.' || CASE
                  WHEN s.nic_mode = 'none' THEN '-'
                  WHEN s.nic <> '' THEN (
                       SELECT min(o.index)::text FROM placement_slot o
                        WHERE o.node_id = n.id AND o.nic = s.nic AND o.state <> 'retired')
                  ELSE '' END, '|' ORDER BY part.at)
         FROM unnest(string_to_array(n.layout, '|')) WITH ORDINALITY AS part(layout, at)
         LEFT JOIN placement_slot s
           ON s.node_id = n.id AND s.index = part.at - 1 AND s.state <> 'retired')
 WHERE layout <> ''
"""
NO_NICS = r"""
UPDATE placement_node SET layout = regexp_replace(
       layout, '(^|\|)([^.|]*\.[^.|]*\.[^.|]*)\.[^|]*', '\1\2', 'g')
"""
OLD_COMMIT = (
    "DROP FUNCTION placement_commit(jsonb, int[], int[], bigint[], bigint[], jsonb, jsonb, "
    "boolean); DROP FUNCTION placement_fabric_open(text, int, uuid, int, placement_item[]); "
    "DROP TYPE placement_item;"
)


class Migration(migrations.Migration):
    """Terms and weights of placement as data; NICs in a node's layout; claims that share nothing."""

    dependencies = [
        ("placement", "0007_pools_and_plurals"),
        ("tenants", "0006_lean_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="PlacementTerms",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gpuaas.kernel.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "about",
                    models.CharField(
                        help_text="sku:NAME, tier:NAME or pool:NAME.", max_length=80, unique=True
                    ),
                ),
                (
                    "alone",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "shares"), (1, "wiring"), (2, "node")],
                        default=0,
                        help_text="What is shared with no other tenant.",
                    ),
                ),
                (
                    "own",
                    models.CharField(
                        blank=True,
                        choices=[("with", "with"), ("apart", "apart")],
                        help_text="Only with, or only apart from, what the tenant holds already.",
                        max_length=5,
                    ),
                ),
                (
                    "driver_min",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(),
                        blank=True,
                        default=list,
                        help_text="Least driver version.",
                        size=None,
                    ),
                ),
                (
                    "driver_below",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(),
                        blank=True,
                        default=list,
                        help_text="First driver version that is too new.",
                        size=None,
                    ),
                ),
                (
                    "runtime_min",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(),
                        blank=True,
                        default=list,
                        help_text="Least runtime version.",
                        size=None,
                    ),
                ),
                (
                    "tenants",
                    models.JSONField(
                        default=list, help_text="Ids of the tenants that a pool is for."
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "verbose_name_plural": "placement terms",
            },
        ),
        migrations.CreateModel(
            name="Scoring",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gpuaas.kernel.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                ("number", models.PositiveIntegerField(unique=True)),
                ("gap", models.PositiveIntegerField(default=10000)),
                ("fragment", models.PositiveIntegerField(default=1000)),
                ("stranded", models.PositiveIntegerField(default=200)),
                ("broken", models.PositiveIntegerField(default=300)),
                ("reason", models.TextField()),
                ("set_by", models.JSONField(default=dict)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddField(
            model_name="claim",
            name="alone",
            field=models.PositiveSmallIntegerField(
                choices=[(0, "shares"), (1, "wiring"), (2, "node")],
                db_default=0,
                default=0,
                help_text="What was promised to be shared with no other tenant.",
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="driver",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.IntegerField(),
                db_default=[],
                default=list,
                help_text="Version of the GPU driver, part by part; empty is unknown.",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="fabric",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="The NVLink domain that it shares with other hosts; empty when it has none.",
                max_length=80,
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="runtime",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.IntegerField(), db_default=[], default=list, size=None
            ),
        ),
        migrations.AlterField(
            model_name="node",
            name="layout",
            field=models.CharField(
                blank=True,
                help_text="numa.switch.domain.nic of each slot, joined by |.",
                max_length=800,
            ),
        ),
        migrations.AddIndex(
            model_name="claim",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["reserved", "active", "releasing", "cleanup_blocked"]),
                    ("alone__gt", 0),
                ),
                fields=["node_num"],
                name="claim_alone",
            ),
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("fabric", ""), _negated=True),
                fields=["fabric"],
                name="node_fabric",
            ),
        ),
        migrations.AddConstraint(
            model_name="placementterms",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("tenants", []), ("about__startswith", "pool:"), _connector="OR"
                ),
                name="only_pools_are_dedicated",
            ),
        ),
        migrations.RunSQL(NICS, NO_NICS),
        migrations.RunSQL(
            (SQL / "commit_v2.sql").read_text(encoding="utf-8"),
            OLD_COMMIT + (SQL / "commit_v1.sql").read_text(encoding="utf-8"),
        ),
    ]
