"""What a sweep could not do, and for how long rows are kept that are over."""

import django.db.models.functions.datetime
from django.db import migrations, models

import gpuaas.kernel.ids


class Migration(migrations.Migration):
    dependencies = [("kernel", "0004_plurals")]

    operations = [
        migrations.CreateModel(
            name="SweepFault",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("sweep", models.CharField(max_length=60)),
                ("subject_id", models.UUIDField()),
                ("attempts", models.PositiveIntegerField(db_default=1, default=1)),
                (
                    "error",
                    models.CharField(
                        help_text="The kind of error; what it said is logged.", max_length=80
                    ),
                ),
                (
                    "first_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("tried_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("sweep", "subject_id"), name="one_fault_of_a_sweep"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RetentionRule",
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
                ("name", models.CharField(max_length=60, unique=True)),
                ("days", models.PositiveIntegerField()),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={"abstract": False},
        ),
    ]
