-- Who holds what on a node: tenant, mask, what was promised, and (last, 1) whether it is somewhere
-- in an NVLink domain that the node shares with other hosts, itself among them. A host whose GPUs
-- have moved to another domain under its claims counts in both.
CREATE OR REPLACE FUNCTION placement_held(p_num int, p_slots int, p_fabric text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_seen text := (SELECT fabric_seen FROM placement_node WHERE num = p_num);
BEGIN
    RETURN (
        SELECT coalesce(string_agg(concat_ws(':', h.tenant_id, h.mask, h.alone, h.afar), ','), '')
          FROM (SELECT c.tenant_id, c.alone, 0 AS afar,
                       bit_or(CASE WHEN c.slot_index < 0 THEN (1::bigint << p_slots) - 1
                                   ELSE 1::bigint << c.slot_index END) AS mask
                  FROM placement_claim c
                 WHERE c.node_num = p_num
                   AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
                 GROUP BY c.tenant_id, c.alone
                 UNION ALL
                SELECT c.tenant_id, c.alone, 1, 0
                  FROM (SELECT num FROM placement_node WHERE p_fabric <> '' AND fabric = p_fabric
                         UNION
                        SELECT num FROM placement_node WHERE v_seen <> '' AND fabric = v_seen
                         UNION
                        SELECT num FROM placement_node
                         WHERE fabric_seen <> '' AND fabric_seen IN (p_fabric, v_seen)) m
                  JOIN placement_claim c ON c.node_num = m.num
                   AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
                 GROUP BY c.tenant_id, c.alone) h);
END $$;
