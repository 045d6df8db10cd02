CREATE OR REPLACE FUNCTION placement_held(p_num int, p_slots int, p_fabric text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
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
                  FROM placement_node m JOIN placement_claim c ON c.node_num = m.num
                   AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
                 WHERE p_fabric <> '' AND m.fabric = p_fabric
                 GROUP BY c.tenant_id, c.alone) h);
END $$;
