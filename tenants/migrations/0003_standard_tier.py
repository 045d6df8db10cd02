"""A fresh installation can sign tenants up: the tier that they get unless told otherwise."""

from typing import Any

from django.db import migrations

from gpuaas.kernel.ids import new_id


def add(apps: Any, schema_editor: Any) -> None:
    apps.get_model("tenants", "SlaTier").objects.get_or_create(
        name="standard",
        defaults={
            "id": new_id(),
            "title": "Standard",
            "priority_band": 1,
            "preemptible": False,
            "isolation": "vm",
        },
    )


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_charge_function")]

    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
