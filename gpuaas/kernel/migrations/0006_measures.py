"""Counts and durations that are taken from events, from this moment on."""

import django.contrib.postgres.fields
from django.db import migrations, models

# What was sealed before is in no total: a counter that took in a history at once would look like a
# burst of it.
_FROM_NOW_ON = """
INSERT INTO kernel_measuresread (one, seal, at)
SELECT true, coalesce((SELECT max(id) FROM kernel_eventseal), 0), now()
"""


class Migration(migrations.Migration):
    dependencies = [("kernel", "0005_sweeps_and_retention")]

    operations = [
        migrations.CreateModel(
            name="MeasureTotal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                (
                    "labels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=120), size=None
                    ),
                ),
                ("count", models.BigIntegerField()),
                (
                    "sum_us",
                    models.BigIntegerField(help_text="Microseconds in all; 0 for a counter."),
                ),
                (
                    "classes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(),
                        help_text="How many fell into each class; none for a counter.",
                        size=None,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("name", "labels"), name="one_total_of_a_series")
                ],
            },
        ),
        migrations.CreateModel(
            name="MeasuresRead",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("one", models.BooleanField(default=True, unique=True)),
                (
                    "seal",
                    models.BigIntegerField(
                        default=0, help_text="The last seal that is in the totals."
                    ),
                ),
                (
                    "at",
                    models.DateTimeField(help_text="Up to when events are in the totals."),
                ),
            ],
            options={"verbose_name_plural": "measures read"},
        ),
        migrations.RunSQL(_FROM_NOW_ON, migrations.RunSQL.noop),
    ]
