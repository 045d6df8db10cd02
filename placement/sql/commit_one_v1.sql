-- Commit one placement that was never queued and is no part of a GPU: what placement_commit writes
-- for it, row by row, from variables instead of a set of one. A set costs a function scan and a
-- description of fifty columns in each of its statements, which together cost as much as the rows.
-- Arguments, locks, order and answers are those of placement_commit (its head explains them); nodes
-- that are locked are passed over. Who adds a column to a row here adds it there: a test compares
-- the rows of both. Nobody subscribes to these events when this is called.
CREATE FUNCTION placement_commit_one(
    p_item jsonb, p_num int[], p_generation bigint[], p_mask bigint[], p_steps jsonb,
    p_key jsonb)
RETURNS TABLE (num integer, mask bigint, refused text, tenant text)
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' AS $$
#variable_conflict use_column
DECLARE
    x placement_item := jsonb_populate_record(NULL::placement_item, p_item);
    v_at timestamptz := statement_timestamp();
    v_id uuid; v_num int; v_mask bigint; v_generation bigint; v_free bigint; v_fabrics text[];
    v_slots uuid[]; v_indices int[]; v_bundle jsonb;
    v_usual text; v_key_waits boolean := false; v_detail text; v_hint text;
BEGIN
    IF p_key IS NOT NULL THEN
        v_usual := current_setting('lock_timeout');
        v_key_waits := true;
        PERFORM set_config('lock_timeout', p_key ->> 8, true);
        INSERT INTO kernel_idempotencykey (
               principal, key, fingerprint, status, headers, body, expires_at)
        VALUES (p_key ->> 0, p_key ->> 1, p_key ->> 2, (p_key ->> 3)::smallint, p_key -> 4,
                convert_to(replace(p_key ->> 5, '@at@', to_char(
                    v_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')), 'UTF8'),
                coalesce((p_key ->> 6)::timestamptz, v_at)
                + make_interval(secs => (p_key ->> 7)::float8))
        ON CONFLICT (principal, key) DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the key was used' USING ERRCODE = 'GP003';
        END IF;
        PERFORM set_config('lock_timeout', v_usual, true);
        v_key_waits := false;
    END IF;
    FOR k IN 1 .. cardinality(p_num) LOOP
        SELECT n.id, n.generation, n.free_mask, array_remove(ARRAY[n.fabric, n.fabric_seen], '')
          INTO v_id, v_generation, v_free, v_fabrics
          FROM placement_node n
         WHERE n.num = p_num[k] AND n.generation = p_generation[k] AND n.schedulable
           FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR (v_free & p_mask[k]) <> p_mask[k];
        IF v_fabrics <> '{}' THEN
            CONTINUE WHEN NOT placement_fabrics_open(
                v_fabrics, p_num[k], x.tenant, coalesce(x.alone, 0), '{}'::placement_item[]);
        END IF;
        v_num := p_num[k];
        v_mask := p_mask[k];
        EXIT;
    END LOOP;
    IF v_num IS NULL THEN
        IF p_key IS NOT NULL THEN
            RAISE EXCEPTION 'no place holds' USING ERRCODE = 'GP004';
        END IF;
        RETURN;
    END IF;
    v_free := v_free & ~v_mask;
    UPDATE placement_node n
       SET generation = v_generation + 1, free_mask = v_free,
           free_count = bit_count(v_free::bit(64))
     WHERE n.id = v_id;
    SELECT array_agg(s.id), array_agg(s.index::int), jsonb_agg(s.devices)
      INTO v_slots, v_indices, v_bundle
      FROM (SELECT s.id, s.index, s.devices FROM placement_slot s
             WHERE s.node_id = v_id AND s.state = 'approved' AND (v_mask >> s.index) & 1 = 1
             ORDER BY s.index) s;
    INSERT INTO admission_admissionrequest (
           id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool,
           slots, replicas, amount_milli, wait, band, spec, state, version, code, detail,
           allocation_id, run_id, actor, workload_id, subject_id)
    VALUES (x.request, x.tenant, x.project, x.action, x.sku, x.class, x.tier_id, x.pool,
           x.slots, x.replicas, x.total, x.wait, x.band, x.spec, 'admitted', 1, '', '',
           x.allocation, x.run, x.actor, x.workload, x.subject);
    INSERT INTO kernel_workflowrun (
           id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
           actor, correlation, due_at, deadline_at, lease_epoch)
    VALUES (x.run, 'allocation.create', x.tenant, 'placement.allocation', x.allocation, 'running',
           'provision', 1, p_steps, jsonb_build_object('task', x.task), x.actor, x.correlation,
           v_at + make_interval(secs => x.task_s), v_at + make_interval(secs => x.run_s), 0);
    INSERT INTO admission_decision (
           id, tenant_id, request_id, verdict, code, gates, winner, runner_up, why,
           envelope_version, digest, facts, policy_version)
    VALUES (x.decision, x.tenant, x.request, 'admit', '', x.gates,
           jsonb_build_object('node_num', v_num, 'slots', to_jsonb(v_indices)), x.runner_up, x.why,
           x.envelope_version, x.digest, x.facts, x.policy_version);
    INSERT INTO placement_allocation (
           id, tenant_id, project_id, request_id, sku_id, name, shape, slots, tier, state,
           version, outcome, outcome_code, outcome_detail, node_id, run_id, attempt, image,
           hostname, ssh_keys, observed, observed_detail, price_hour_micro, currency, workload_id)
    VALUES (x.allocation, x.tenant, x.project, x.request, x.sku, x.name, x.shape, x.slots, x.tier,
           'placed', 1, '', '', '', v_id, x.run, 1, x.image, x.hostname, x.ssh_keys, 'unknown', '',
           x.price, x.currency, x.workload);
    IF x.whole THEN
        INSERT INTO placement_claim (
               id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
               resource_class_id, amount_milli, state, version, holder, attempt, boot_id, alone)
        VALUES (x.claims[1], x.tenant, x.allocation, v_id, v_num, NULL, -1,
               int4multirange(int4range(0, 2147483647)), x.class, x.amount, 'reserved', 1,
               'tenant', 1, '', coalesce(x.alone, 0));
    ELSE
        INSERT INTO placement_claim (
               id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
               resource_class_id, amount_milli, state, version, holder, attempt, boot_id, alone)
        SELECT c.id, x.tenant, x.allocation, v_id, v_num, c.slot, c.index,
               int4multirange(int4range(c.index * 1000, (c.index + 1) * 1000)),
               x.class, x.units, 'reserved', 1, 'tenant', 1, '', coalesce(x.alone, 0)
          FROM unnest(x.claims, v_slots, v_indices) AS c(id, slot, index);
    END IF;
    INSERT INTO placement_claimdevice (claim_id, uid, live)
    SELECT x.claims[CASE WHEN x.whole THEN 1 ELSE array_position(v_slots, s.id) END], d.uid, true
      FROM placement_slot s CROSS JOIN LATERAL unnest(s.device_uids) AS d(uid)
     WHERE s.id = ANY (v_slots);
    INSERT INTO placement_nodetask (
           id, node_id, kind, allocation_id, state, version, params, claim_attempt, attempt,
           max_attempts, lease_epoch, boot_id, deadline_at, step, run_id)
    VALUES (x.task, v_id, x.kind, x.allocation, 'pending', 1,
           jsonb_build_object(
               'allocation_id', x.allocation, 'image', x.image, 'ssh_keys', x.ssh_keys,
               'hostname', x.hostname, CASE WHEN x.whole THEN 'devices' ELSE 'slots' END, v_bundle),
           1, 0, 5, 0, '', v_at + make_interval(secs => x.task_s), '', x.run);
    INSERT INTO kernel_event (
           uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
           facts, correlation)
    VALUES (x.uids[1], x.tenant, 'admission.admissionrequest.admit', 'admission.admissionrequest',
            x.request, x.actor, '{"state": "received"}', '{"state": "admitted"}', '',
            jsonb_build_object('decision', x.decision), x.correlation),
           (x.uids[2], x.tenant, 'placement.allocation.place', 'placement.allocation', x.allocation,
            x.actor, NULL, '{"state": "placed"}', '',
            jsonb_build_object('node_num', v_num, 'slots', to_jsonb(v_indices), 'sku', x.sku,
                               'amount_milli', x.amount), x.correlation);
    PERFORM tenants_charge_one(x.tenant, x.project, x.class, x.amount);
    RETURN QUERY SELECT v_num, v_mask, NULL::text, NULL::text;
EXCEPTION
WHEN SQLSTATE 'GP004' THEN
    RETURN;
WHEN SQLSTATE 'GP001' OR SQLSTATE 'GP003' OR lock_not_available THEN
    IF SQLSTATE = '55P03' AND NOT v_key_waits THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    RETURN QUERY SELECT 0, 0::bigint, CASE SQLSTATE WHEN 'GP001' THEN v_hint ELSE SQLSTATE END,
                        v_detail;
END $$;
