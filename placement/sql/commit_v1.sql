-- Commit a batch of placements in one round trip: node generations (compare-and-set),
-- requests, decisions, allocations, claims, devices, node tasks, runs, events, quota.
--
-- p_items is an array; item i carries the rows to write and "options", its candidate places
-- [num, generation, mask] in order of preference. An item none of whose options still holds
-- is left out of the answer and writes nothing. p_skip: pass over nodes that are locked.
-- Locks: nodes, then claims, then quota counters (the hottest rows) last.
-- Raises GP001 (envelope) or GP002 (a queued request was withdrawn): then nothing is written.
CREATE OR REPLACE FUNCTION placement_commit(p_items jsonb, p_heard jsonb, p_skip boolean)
RETURNS TABLE (item integer, num integer, mask bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_item jsonb; v_opt jsonb; v_id uuid; v_free bigint; v_mask bigint; v_num int; v_n int;
    c_item int[] := '{}'; c_node uuid[] := '{}'; c_num int[] := '{}'; c_mask bigint[] := '{}';
    v_charge record;
BEGIN
    FOR v_item IN SELECT value FROM jsonb_array_elements(p_items) LOOP
        FOR v_opt IN SELECT value FROM jsonb_array_elements(v_item -> 'options') LOOP
            v_num := (v_opt ->> 0)::int;
            v_mask := (v_opt ->> 2)::bigint;
            IF p_skip THEN
                SELECT n.id, n.free_mask INTO v_id, v_free FROM placement_node n
                 WHERE n.num = v_num AND n.generation = (v_opt ->> 1)::bigint AND n.schedulable
                   FOR NO KEY UPDATE SKIP LOCKED;
            ELSE
                SELECT n.id, n.free_mask INTO v_id, v_free FROM placement_node n
                 WHERE n.num = v_num AND n.generation = (v_opt ->> 1)::bigint AND n.schedulable
                   FOR NO KEY UPDATE;
            END IF;
            CONTINUE WHEN NOT FOUND OR (v_free & v_mask) <> v_mask;
            UPDATE placement_node n
               SET generation = n.generation + 1, free_mask = n.free_mask & ~v_mask,
                   free_count = bit_count((n.free_mask & ~v_mask)::bit(64))
             WHERE n.id = v_id;
            c_item := c_item || (v_item ->> 'i')::int;
            c_node := c_node || v_id;
            c_num := c_num || v_num;
            c_mask := c_mask || v_mask;
            EXIT;
        END LOOP;
    END LOOP;
    IF cardinality(c_item) = 0 THEN
        RETURN;
    END IF;

    UPDATE admission_admissionrequest r
       SET state = 'admitted', code = '', detail = '', allocation_id = b.allocation,
           version = r.version + 1, state_since = clock_timestamp()
      FROM jsonb_to_recordset(p_items) AS b(i int, request uuid, allocation uuid, queued boolean)
     WHERE b.i = ANY (c_item) AND b.queued AND r.id = b.request AND r.state = 'queued';
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> (SELECT count(*) FROM jsonb_to_recordset(p_items) AS b(i int, queued boolean)
                WHERE b.queued AND b.i = ANY (c_item)) THEN
        RAISE EXCEPTION 'a queued request left the queue' USING ERRCODE = 'GP002';
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
               params jsonb, task_s int, run uuid, steps jsonb, run_s int, uids uuid[],
               correlation text)
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
               x.params || jsonb_build_object(
                   CASE WHEN x.whole THEN 'devices' ELSE 'slots' END, w.bundle), 1, 0, 5, 0, '',
               clock_timestamp() + make_interval(secs => x.task_s), '', x.run
          FROM x JOIN w USING (i)
    ), run AS (
        INSERT INTO kernel_workflowrun (
               id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
               actor, correlation, due_at, deadline_at, lease_epoch)
        SELECT run, 'allocation.create', tenant, 'placement.allocation', allocation, 'running',
               'provision', 1, steps, jsonb_build_object('task', task), actor, correlation,
               clock_timestamp() + make_interval(secs => task_s),
               clock_timestamp() + make_interval(secs => run_s), 0
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
    )
    INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
    SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
      FROM happened
      JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true;

    UPDATE kernel_workflowrun r
       SET state = 'running', step = 'provision', attempt = 1, steps = b.steps,
           subject_kind = 'placement.allocation', subject_id = b.allocation,
           input = jsonb_build_object('task', b.task), updated_at = clock_timestamp(),
           due_at = clock_timestamp() + make_interval(secs => b.task_s),
           deadline_at = clock_timestamp() + make_interval(secs => b.run_s)
      FROM jsonb_to_recordset(p_items) AS b(
           i int, queued boolean, run uuid, steps jsonb, allocation uuid, task uuid,
           task_s int, run_s int)
     WHERE b.queued AND b.i = ANY (c_item) AND r.id = b.run;

    FOR v_charge IN
        SELECT b.tenant, b.class, sum(b.amount)::bigint AS amount
          FROM jsonb_to_recordset(p_items) AS b(i int, tenant uuid, class uuid, amount bigint)
         WHERE b.i = ANY (c_item)
         GROUP BY b.tenant, b.class ORDER BY b.tenant, b.class
    LOOP
        PERFORM tenants_charge(v_charge.tenant, v_charge.class, v_charge.amount);
    END LOOP;

    RETURN QUERY SELECT * FROM unnest(c_item, c_num, c_mask);
END $$;
