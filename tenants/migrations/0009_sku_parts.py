from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0008_storage"),
    ]

    operations = [
        migrations.AddField(
            model_name="sku",
            name="part_memory_mib",
            field=models.PositiveIntegerField(
                help_text="The memory of a GPU that goes with the share, in MiB.", null=True
            ),
        ),
        migrations.AddField(
            model_name="sku",
            name="part_milli",
            field=models.PositiveSmallIntegerField(
                help_text="The share of a GPU that is sold, in thousandths.", null=True
            ),
        ),
        migrations.AddField(
            model_name="sku",
            name="part_profile",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The MIG profile that is sold, such as 1g.10gb.",
                max_length=24,
            ),
        ),
        migrations.AlterField(
            model_name="sku",
            name="shape",
            field=models.CharField(
                choices=[
                    ("baremetal", "Baremetal"),
                    ("gpu_slice", "Gpu Slice"),
                    ("mig", "Mig"),
                    ("gpu_share", "Gpu Share"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="sku",
            name="units_milli",
            field=models.PositiveIntegerField(
                default=1000,
                help_text="Quota for one slot (part, node), in thousandths of the class.",
            ),
        ),
        migrations.AddConstraint(
            model_name="sku",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("part_memory_mib__isnull", True),
                        ("part_milli__isnull", True),
                        ("shape", "mig"),
                        models.Q(("part_profile", ""), _negated=True),
                    ),
                    models.Q(
                        ("part_memory_mib__gte", 1),
                        ("part_milli__gte", 1),
                        ("part_milli__lte", 1000),
                        ("part_profile", ""),
                        ("shape", "gpu_share"),
                    ),
                    models.Q(
                        models.Q(("shape__in", ("mig", "gpu_share")), _negated=True),
                        ("part_memory_mib__isnull", True),
                        ("part_milli__isnull", True),
                        ("part_profile", ""),
                    ),
                    _connector="OR",
                ),
                name="sku_says_its_part",
            ),
        ),
        migrations.AddConstraint(
            model_name="sku",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("shape__in", ("mig", "gpu_share")), _negated=True),
                    models.Q(("exclusive_nic", False), ("slots_max", 1)),
                    _connector="OR",
                ),
                name="a_part_is_sold_alone",
            ),
        ),
    ]
