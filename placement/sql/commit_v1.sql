-- Commit a batch of placements in one round trip: node generations (compare-and-set),
-- requests, decisions, allocations, claims, devices, node tasks, runs, events, quota.
--
-- p_items holds what to write, one object an item, with its number "i". The candidate places
-- come beside it as four arrays in order of preference: item, node number, generation, mask.
-- An item none of whose places still holds is left out of the answer and writes nothing.
-- p_skip: pass over nodes that are locked. p_steps: the steps of a run that was just placed.
-- Locks: nodes, then claims, then quota counters (the hottest rows) last; call it once in a
-- transaction, since a second batch would take its nodes after the first one's counters.
-- The one long statement is planned once per connection: planning it anew costs several times
-- what it does, and no value of its arguments changes the best plan.
-- When the batch as a whole cannot be written, nothing is, and the one row of the answer says
-- why: GP001 (the envelope of a tenant does not allow it) or GP002 (a request left the queue).
CREATE OR REPLACE FUNCTION placement_commit(
    p_items jsonb, p_item int[], p_num int[], p_generation bigint[], p_mask bigint[],
    p_steps jsonb, p_heard jsonb, p_skip boolean)
RETURNS TABLE (item integer, num integer, mask bigint, node uuid, refused text, tenant text)
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' AS $$
#variable_conflict use_column
DECLARE
    v_id uuid; v_free bigint; v_n int; v_queued int; v_done int := -1; v_detail text;
    c_item int[] := '{}'; c_node uuid[] := '{}'; c_num int[] := '{}'; c_mask bigint[] := '{}';
    v_charge record;
BEGIN
    FOR k IN 1 .. cardinality(p_num) LOOP
        CONTINUE WHEN p_item[k] = v_done;
        IF p_skip THEN
            SELECT n.id, n.free_mask INTO v_id, v_free FROM placement_node n
             WHERE n.num = p_num[k] AND n.generation = p_generation[k] AND n.schedulable
               FOR NO KEY UPDATE SKIP LOCKED;
        ELSE
            SELECT n.id, n.free_mask INTO v_id, v_free FROM placement_node n
             WHERE n.num = p_num[k] AND n.generation = p_generation[k] AND n.schedulable
               FOR NO KEY UPDATE;
        END IF;
        CONTINUE WHEN NOT FOUND OR (v_free & p_mask[k]) <> p_mask[k];
        UPDATE placement_node n
           SET generation = n.generation + 1, free_mask = v_free & ~p_mask[k],
               free_count = bit_count((v_free & ~p_mask[k])::bit(64))
         WHERE n.id = v_id;
        v_done := p_item[k];
        c_item := c_item || v_done;
        c_node := c_node || v_id;
        c_num := c_num || p_num[k];
        c_mask := c_mask || p_mask[k];
    END LOOP;
    IF v_done < 0 THEN
        RETURN;
    END IF;

    WITH x AS MATERIALIZED (
        SELECT u.node, u.node_num, u.picked, b.*
          FROM unnest(c_item, c_node, c_num, c_mask) AS u(item, node, node_num, picked)
          JOIN jsonb_to_recordset(p_items) AS b(
               i int, queued boolean, whole boolean, tenant uuid, project uuid, request uuid,
               sku uuid, class uuid, tier_id uuid, tier text, pool text, slots int,
               amount bigint, units bigint, wait boolean, band int, spec jsonb, actor jsonb,
               decision uuid, gates jsonb, runner_up jsonb, why text, envelope_version int,
               digest text, allocation uuid, name text, shape text, image text, hostname text,
               ssh_keys jsonb, price bigint, currency text, claims uuid[], task uuid, kind text,
               task_s int, run uuid, run_s int, uids uuid[], correlation text)
            ON b.i = u.item
    ), s AS MATERIALIZED (
        SELECT x.i, s.id, s.index, s.devices, s.device_uids,
               row_number() OVER (PARTITION BY x.i ORDER BY s.index) AS k
          FROM x JOIN placement_slot s ON s.node_id = x.node AND s.state = 'approved'
           AND (x.picked >> s.index) & 1 = 1
    ), w AS MATERIALIZED (
        SELECT s.i, jsonb_agg(s.index ORDER BY s.index) AS indices,
               jsonb_agg(s.devices ORDER BY s.index) AS bundle
          FROM s GROUP BY s.i
    ), request AS (
        INSERT INTO admission_admissionrequest (
               id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool,
               slots, amount_milli, wait, band, spec, state, version, code, detail,
               allocation_id, run_id, actor)
        SELECT request, tenant, project, 'allocation.create', sku, class, tier_id, pool, slots,
               amount, wait, band, spec, 'admitted', 1, '', '', allocation, run, actor
          FROM x WHERE NOT queued
    ), decision AS (
        INSERT INTO admission_decision (
               id, tenant_id, request_id, verdict, code, gates, winner, runner_up, why,
               envelope_version, digest)
        SELECT x.decision, x.tenant, x.request, 'admit', '', x.gates,
               jsonb_build_object('node_num', x.node_num, 'slots', w.indices), x.runner_up,
               x.why, x.envelope_version, x.digest
          FROM x JOIN w USING (i)
    ), allocation AS (
        INSERT INTO placement_allocation (
               id, tenant_id, project_id, request_id, sku_id, name, shape, slots, tier, state,
               version, outcome, outcome_code, outcome_detail, node_id, run_id, attempt, image,
               hostname, ssh_keys, observed, observed_detail, price_hour_micro, currency)
        SELECT allocation, tenant, project, request, sku, name, shape, slots, tier, 'placed', 1,
               '', '', '', node, run, 1, image, hostname, ssh_keys, 'unknown', '', price, currency
          FROM x
    ), claim AS (
        INSERT INTO placement_claim (
               id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
               resource_class_id, amount_milli, state, version, holder, attempt, boot_id)
        SELECT x.claims[s.k], x.tenant, x.allocation, x.node, x.node_num, s.id, s.index,
               int4multirange(int4range(s.index * 1000, (s.index + 1) * 1000)),
               x.class, x.units, 'reserved', 1, 'tenant', 1, ''
          FROM x JOIN s USING (i) WHERE NOT x.whole
        UNION ALL
        SELECT x.claims[1], x.tenant, x.allocation, x.node, x.node_num, NULL, -1,
               int4multirange(int4range(0, 2147483647)), x.class, x.amount, 'reserved', 1,
               'tenant', 1, ''
          FROM x WHERE x.whole
    ), device AS (
        INSERT INTO placement_claimdevice (claim_id, uid, live)
        SELECT CASE WHEN x.whole THEN x.claims[1] ELSE x.claims[s.k] END, d.uid, true
          FROM x JOIN s USING (i) CROSS JOIN LATERAL unnest(s.device_uids) AS d(uid)
    ), task AS (
        INSERT INTO placement_nodetask (
               id, node_id, kind, allocation_id, state, version, params, claim_attempt, attempt,
               max_attempts, lease_epoch, boot_id, deadline_at, step, run_id)
        SELECT x.task, x.node, x.kind, x.allocation, 'pending', 1,
               jsonb_build_object(
                   'allocation_id', x.allocation, 'image', x.image, 'ssh_keys', x.ssh_keys,
                   'hostname', x.hostname,
                   CASE WHEN x.whole THEN 'devices' ELSE 'slots' END, w.bundle), 1, 0, 5, 0, '',
               statement_timestamp() + make_interval(secs => x.task_s), '', x.run
          FROM x JOIN w USING (i)
    ), run AS (
        INSERT INTO kernel_workflowrun (
               id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
               actor, correlation, due_at, deadline_at, lease_epoch)
        SELECT run, 'allocation.create', tenant, 'placement.allocation', allocation, 'running',
               'provision', 1, p_steps, jsonb_build_object('task', task), actor, correlation,
               statement_timestamp() + make_interval(secs => task_s),
               statement_timestamp() + make_interval(secs => run_s), 0
          FROM x WHERE NOT queued
    ), happened AS (
        INSERT INTO kernel_event (
               uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
               facts, correlation)
        SELECT uids[1], tenant, 'admission.admissionrequest.admit', 'admission.admissionrequest',
               request, actor,
               jsonb_build_object('state', CASE WHEN queued THEN 'queued' ELSE 'received' END),
               '{"state": "admitted"}'::jsonb, '', jsonb_build_object('decision', decision),
               correlation
          FROM x
        UNION ALL
        SELECT uids[2], tenant, 'placement.allocation.place', 'placement.allocation', allocation,
               actor, NULL, '{"state": "placed"}'::jsonb, '',
               jsonb_build_object('node_num', node_num, 'slots', w.indices, 'sku', sku,
                                  'amount_milli', amount), correlation
          FROM x JOIN w USING (i)
        RETURNING id, kind, subject_id
    ), heard AS (
        INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
        SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
          FROM happened
          JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true
    ), left_queue AS (
        UPDATE admission_admissionrequest r
           SET state = 'admitted', code = '', detail = '', allocation_id = x.allocation,
               version = r.version + 1, state_since = statement_timestamp()
          FROM x WHERE x.queued AND r.id = x.request AND r.state = 'queued'
        RETURNING r.id
    ), resumed AS (
        UPDATE kernel_workflowrun r
           SET state = 'running', step = 'provision', attempt = 1, steps = p_steps,
               subject_kind = 'placement.allocation', subject_id = x.allocation,
               input = jsonb_build_object('task', x.task), updated_at = statement_timestamp(),
               due_at = statement_timestamp() + make_interval(secs => x.task_s),
               deadline_at = statement_timestamp() + make_interval(secs => x.run_s)
          FROM x WHERE x.queued AND r.id = x.run
    )
    SELECT (SELECT count(*) FROM x WHERE x.queued), (SELECT count(*) FROM left_queue)
      INTO v_queued, v_n;
    IF v_n <> v_queued THEN
        RAISE EXCEPTION 'a queued request left the queue' USING ERRCODE = 'GP002';
    END IF;

    FOR v_charge IN
        SELECT b.tenant, b.class, sum(b.amount)::bigint AS amount
          FROM jsonb_to_recordset(p_items) AS b(i int, tenant uuid, class uuid, amount bigint)
         WHERE b.i = ANY (c_item)
         GROUP BY b.tenant, b.class ORDER BY b.tenant, b.class
    LOOP
        PERFORM tenants_charge(v_charge.tenant, v_charge.class, v_charge.amount);
    END LOOP;

    RETURN QUERY SELECT *, NULL::text, NULL::text FROM unnest(c_item, c_num, c_mask, c_node);
EXCEPTION WHEN SQLSTATE 'GP001' OR SQLSTATE 'GP002' THEN
    GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL;
    RETURN QUERY SELECT -1, 0, 0::bigint, NULL::uuid, SQLSTATE, v_detail;
END $$;
