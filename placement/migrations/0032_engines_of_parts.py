from django.db import migrations

FORWARD = """
UPDATE placement_cutslot SET state = state | ((state & 15) << 5) WHERE board = 'rtx-pro-6000';
UPDATE placement_claim c
   SET part = jsonb_set(c.part, '{bits}', to_jsonb(
           (c.part->>'bits')::int | (((c.part->>'bits')::int & 15) << 5)))
  FROM placement_cutslot s
 WHERE s.board = 'rtx-pro-6000' AND s.node_num = c.node_num AND s.slot_index = c.slot_index
   AND c.part->>'bits' IS NOT NULL AND c.state <> 'released';
"""
BACKWARD = """
UPDATE placement_cutslot SET state = state & 31 WHERE board = 'rtx-pro-6000';
UPDATE placement_claim c
   SET part = jsonb_set(c.part, '{bits}', to_jsonb((c.part->>'bits')::int & 31))
  FROM placement_cutslot s
 WHERE s.board = 'rtx-pro-6000' AND s.node_num = c.node_num AND s.slot_index = c.slot_index
   AND c.part->>'bits' IS NOT NULL AND c.state <> 'released';
"""


class Migration(migrations.Migration):
    """Where each slice of a GPU has media engines, what is in use of them is kept as well.

    Until now only profiles were known that have those of their own slices.
    """

    dependencies = [("placement", "0031_switches_above")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
