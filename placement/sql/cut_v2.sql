-- Parts are sold as slices are: on a host that is promoted for them.
-- What a node's cut slots say, from its claims; the caller holds the node's row lock. What is no
-- longer cut, or retired, goes. Free milli of a slot that something else than parts holds are
-- those of its parts; it is not open.
CREATE OR REPLACE FUNCTION placement_cut_recount(p_node uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM placement_cutslot k WHERE k.node_id = p_node) THEN
        RETURN;
    END IF;
    DELETE FROM placement_cutslot k USING placement_slot s
     WHERE k.node_id = p_node AND s.id = k.slot_id
       AND (s.cut <> k.cut OR s.state = 'retired');
    UPDATE placement_cutslot k
       SET (node_num, slot_index, pool_id, family_id, taken, free_milli, state, memory_used_mib,
            holder, open) = (
            SELECT n.num, s.index, n.pool_id, n.family_id, coalesce(h.taken, '{}'),
                   1000 - coalesce(h.milli, 0), coalesce(h.state, 0), coalesce(h.memory_mib, 0),
                   CASE WHEN k.cut = 'share' THEN h.tenant END,
                   n.schedulable AND n.takes IN ('any', 'slices')
                       AND k.cut = ANY (n.part_kinds) AND s.state = 'approved'
                       AND NOT EXISTS (
                           SELECT FROM placement_nodedrain d
                            WHERE d.node_id = n.id AND d.slot_index = s.index
                              AND d.ended_at IS NULL)
                       AND NOT EXISTS (
                           SELECT FROM placement_slotresidue r
                            WHERE r.slot_id = s.id AND r.state = 'found')
                       AND NOT EXISTS (
                           SELECT FROM placement_claim c
                            WHERE c.node_num = n.num AND c.part IS NULL
                              AND c.state IN ('reserved', 'active', 'releasing',
                                              'cleanup_blocked')
                              AND c.span && int4multirange(
                                  int4range(s.index * 1000, (s.index + 1) * 1000)))
              FROM placement_slot s JOIN placement_node n ON n.id = s.node_id
              LEFT JOIN LATERAL (
                   SELECT range_agg(c.span) AS taken,
                          sum((SELECT sum(upper(r) - lower(r)) FROM unnest(c.span) r)) AS milli,
                          bit_or((c.part ->> 'bits')::int) AS state,
                          sum((c.part ->> 'memory_mib')::int) AS memory_mib,
                          min(c.tenant_id::text)::uuid AS tenant
                     FROM placement_claim c
                    WHERE c.node_num = n.num AND c.slot_index = s.index AND c.part IS NOT NULL
                      AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
                   ) h ON true
             WHERE s.id = k.slot_id)
     WHERE k.node_id = p_node;
END $$;
