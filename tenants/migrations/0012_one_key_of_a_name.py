from typing import Any, Final

from django.db import migrations, models

LENGTHS: Final = (8, 16, 43)
"""Characters of a fingerprint that tell a key from one of its name; the last are all."""
LONGEST: Final = 120


def rename_later_keys(apps: Any, schema_editor: Any) -> None:
    """Of keys of one name the first keeps it; the later ones have of their fingerprint behind it.

    That is what a key is called whose comment is another key's name. Nothing is added meanwhile.
    """
    schema_editor.execute("LOCK TABLE tenants_sshkey IN SHARE ROW EXCLUSIVE MODE")
    keys = apps.get_model("tenants", "SshKey").objects
    taken: set[tuple[Any, str]] = set(keys.values_list("tenant_id", "name"))
    first: set[tuple[Any, str]] = set()
    for key in keys.order_by("created_at", "id").iterator():
        place = (key.tenant_id, key.name)
        if place not in first:
            first.add(place)
            continue
        letters = "".join(c for c in key.fingerprint.rpartition(":")[2] if c.isalnum())
        for length in LENGTHS:
            piece = letters[:length]
            name = f"{key.name[: LONGEST - 1 - len(piece)]} {piece}"
            if (key.tenant_id, name) not in taken:
                break
        taken.add((key.tenant_id, name))
        first.add((key.tenant_id, name))
        keys.filter(pk=key.pk).update(name=name)


class Migration(migrations.Migration):
    """A name means one SSH key of its tenant."""

    dependencies = [("tenants", "0011_drains_told")]

    operations = [
        migrations.RunPython(rename_later_keys, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="sshkey",
            constraint=models.UniqueConstraint(
                fields=("tenant", "name"),
                name="one_ssh_key_of_a_name",
                violation_error_message="The tenant has another key of this name.",
            ),
        ),
    ]
