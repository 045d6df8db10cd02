-- End what one allocation holds, in one round trip: its claims, their devices, the allocation,
-- events, and the node's free capacity. Whether proof is complete has been decided by the caller.
--
-- p_moves are the edges that are pulled here, from the tables of lifecycles, as for a release.
-- p_uids are ids for the events: the first are used; of more claims the database makes them.
-- Where the allocation, or a claim that is live, is in no state from which it may end, nothing is
-- written and the answer says in which state the allocation is; no answer: there is none.
-- The answer has what the tenant was charged for, by class: the caller gives it back last, since
-- the counters are the hottest rows. Locks: the node, the allocation, its claims.
CREATE FUNCTION placement_finish(
    p_allocation uuid, p_moves jsonb, p_actor jsonb, p_reason text, p_correlation text,
    p_uids uuid[], p_heard jsonb, p_at timestamptz)
RETURNS TABLE (was text, ended boolean, node uuid, tenant uuid, project uuid, classes uuid[],
               amounts bigint[])
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = 'off' AS $$
#variable_conflict use_column
DECLARE
    v_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{allocation,from}'));
    v_claim_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{claim,from}'));
    v_to text := p_moves #>> '{allocation,to}'; v_claim_to text := p_moves #>> '{claim,to}';
    v_node uuid; v_tenant uuid; v_project uuid; v_was text; v_may boolean; v_at timestamptz;
    v_claims uuid[]; v_claims_was text[];
BEGIN
    SELECT a.node_id INTO v_node FROM placement_allocation a WHERE a.id = p_allocation;
    PERFORM FROM placement_node n WHERE n.id = v_node FOR NO KEY UPDATE;
    SELECT a.state, a.tenant_id, a.project_id INTO v_was, v_tenant, v_project
      FROM placement_allocation a WHERE a.id = p_allocation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(l.id), array_agg(l.state), coalesce(bool_and(l.state = ANY (v_claim_leaves)), true)
      INTO v_claims, v_claims_was, v_may
      FROM (SELECT c.id, c.state::text FROM placement_claim c
             WHERE c.allocation_id = p_allocation AND p_moves -> 'live' ? c.state
             ORDER BY c.slot_index FOR NO KEY UPDATE) l;
    IF NOT v_may OR v_was <> ALL (v_leaves) THEN
        RETURN QUERY SELECT v_was, false, v_node, v_tenant, v_project, NULL::uuid[], NULL::bigint[];
        RETURN;
    END IF;
    v_at := coalesce(p_at, clock_timestamp());
    UPDATE placement_claim c
       SET state = v_claim_to, state_since = v_at, version = c.version + 1, ended_at = v_at
     WHERE c.id = ANY (v_claims);
    UPDATE placement_claimdevice d SET live = false WHERE d.claim_id = ANY (v_claims) AND d.live;
    UPDATE placement_allocation a
       SET state = v_to, state_since = v_at, version = a.version + 1, released_at = v_at,
           connection = NULL
     WHERE a.id = p_allocation;
    WITH happened AS (
        INSERT INTO kernel_event (
               uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
               facts, correlation)
        SELECT coalesce(p_uids[e.n], gen_random_uuid()), v_tenant, e.kind, e.noun, e.subject,
               p_actor, jsonb_build_object('state', e.was), jsonb_build_object('state', e.became),
               p_reason, '{}', p_correlation
          FROM (SELECT u.n::int + 1 AS n, 'placement.claim.finish' AS kind,
                       'placement.claim' AS noun, u.id AS subject, u.was, v_claim_to AS became
                  FROM unnest(v_claims, v_claims_was) WITH ORDINALITY AS u(id, was, n)
                 UNION ALL
                SELECT 1, 'placement.allocation.finish', 'placement.allocation', p_allocation, v_was,
                       v_to) e
         -- The first id is the allocation's, whose event comes last.
         ORDER BY e.n = 1, e.n
        RETURNING id, kind, subject_id)
    INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
    SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
      FROM happened
      JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true;
    PERFORM placement_recount(v_node);
    RETURN QUERY
        SELECT v_was, true, v_node, v_tenant, v_project, array_agg(s.class), array_agg(s.amount)
          FROM (SELECT c.resource_class_id AS class, sum(c.amount_milli)::bigint AS amount
                  FROM placement_claim c
                 WHERE c.id = ANY (v_claims) AND c.holder = p_moves ->> 'charged'
                 GROUP BY c.resource_class_id) s;
END $$;
