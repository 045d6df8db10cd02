"""A fresh installation has a pool that nodes join unless told otherwise."""

from typing import Any

from django.db import migrations

from gpuaas.kernel.ids import new_id


def add(apps: Any, schema_editor: Any) -> None:
    apps.get_model("placement", "Pool").objects.get_or_create(
        name="default", defaults={"id": new_id(), "title": "Default"}
    )


class Migration(migrations.Migration):
    dependencies = [("placement", "0002_commit_functions")]

    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
