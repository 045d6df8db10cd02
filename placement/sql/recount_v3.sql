-- Bring a node's free mask to what its approved, uncut, undrained, unclaimed and clean slots say,
-- and its cut slots to what their parts say. The caller holds the node's row lock. The generation
-- rises, so that no stale decision holds.
CREATE OR REPLACE FUNCTION placement_recount(p_node uuid)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_mask bigint;
BEGIN
    SELECT coalesce(bit_or(1::bigint << s.index), 0) INTO v_mask
      FROM placement_slot s
     WHERE s.node_id = p_node AND s.state = 'approved' AND s.cut = 'whole'
       AND NOT EXISTS (
           SELECT FROM placement_nodedrain d
            WHERE d.node_id = p_node AND d.slot_index = s.index AND d.ended_at IS NULL)
       AND NOT EXISTS (
           SELECT FROM placement_slotresidue r
            WHERE r.slot_id = s.id AND r.state = 'found')
       AND NOT EXISTS (
           SELECT FROM placement_claim c JOIN placement_node n ON n.num = c.node_num
            WHERE n.id = p_node
              AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
              AND c.span && int4multirange(int4range(s.index * 1000, (s.index + 1) * 1000)));
    UPDATE placement_node
       SET free_mask = v_mask, free_count = bit_count(v_mask::bit(64)),
           generation = generation + 1
     WHERE id = p_node;
    PERFORM placement_cut_recount(p_node);
    RETURN v_mask;
END $$;
