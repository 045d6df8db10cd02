-- Commit a batch of placements in one round trip: node generations (compare-and-set),
-- requests, decisions, allocations, claims, devices, node tasks, runs, events, quota.
--
-- p_items holds what to write, one object an item. The candidate places come beside it as four
-- arrays in order of preference: item (from 0), node number, generation, mask. An item none of
-- whose places still holds is left out of the answer and writes nothing. Where any item asks for
-- a part of a cut slot, p_parts has an object for each place, or null: slot, span (of the node's
-- line), bits, milli, memory_mib, part (as the claim keeps it) and uid (what it is of its GPU, where
-- that is a device). Such a place has mask 0;
-- what it takes is free as long as the generation is the one that was seen. A batch without parts
-- passes NULL, and runs the statements that it always did.
-- p_skip: pass over nodes that are locked. p_steps: the steps of a run that was just placed.
-- Locks: nodes, then claims, then quota counters (the hottest rows) last; call it once in a
-- transaction, since a second batch would take its nodes after the first one's counters.
-- Every statement writes one table for the whole batch: a single item pays for no join that
-- only a batch needs. Plans are kept, since no value of the arguments changes the best one.
-- When the batch as a whole cannot be written, nothing is, and the one row of the answer says
-- why: a reason code (somebody's quota does not allow it) or GP002 (a request left the queue).
-- Where anybody was promised wiring or a host of their own, the generation closes the race inside
-- a host: it rises with every claim there. An NVLink domain that spans hosts has no generation;
-- whoever places in one holds its lock, and looks again at who else is in it; so on a host whose
-- GPUs have moved to another domain under its claims, for both. The lock is never waited for while
-- nodes are locked: who does not get it has lost this place.
-- p_key: an idempotency key that is used up by this, with the answer that is given: principal, key,
-- fingerprint, status, headers, body, now (null: the database's), seconds to keep it, and how long
-- a twin is waited for. In the body @at@ stands for the time of this statement. The key is written
-- before any lock is taken, so that who waits for a twin holds nothing. With it, nothing is written
-- either when no place holds; GP003 says that the key was there, 55P03 that its twin takes too long.
CREATE FUNCTION placement_commit(
    p_items jsonb, p_item int[], p_num int[], p_generation bigint[], p_mask bigint[],
    p_steps jsonb, p_heard jsonb, p_skip boolean, p_parts jsonb DEFAULT NULL,
    p_key jsonb DEFAULT NULL)
RETURNS TABLE (item integer, num integer, mask bigint, refused text, tenant text)
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' AS $$
#variable_conflict use_column
DECLARE
    v_id uuid; v_num int := -1; v_generation bigint; v_free bigint; v_changed boolean := false;
    v_n int; v_done int := -1; v_waited int := 0; v_detail text; v_hint text;
    v_fabrics text[]; v_part jsonb; v_slot uuid; v_devices jsonb; v_parts int := 0;
    v_at timestamptz := statement_timestamp();
    v_item placement_item; v_items placement_item[] := '{}';
    v_usual text := current_setting('lock_timeout'); v_key_waits boolean := false;
BEGIN
    IF p_key IS NOT NULL THEN
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
        CONTINUE WHEN p_item[k] = v_done;
        -- Neighbours in a batch often go to one node: it is read and written once for them.
        IF p_num[k] <> v_num THEN
            IF v_changed THEN
                UPDATE placement_node n
                   SET generation = v_generation, free_mask = v_free,
                       free_count = bit_count(v_free::bit(64))
                 WHERE n.id = v_id;
                v_changed := false;
            END IF;
            IF p_skip THEN
                SELECT n.id, n.num, n.generation, n.free_mask,
                       array_remove(ARRAY[n.fabric, n.fabric_seen], '')
                  INTO v_id, v_num, v_generation, v_free, v_fabrics
                  FROM placement_node n
                 WHERE n.num = p_num[k] AND n.generation = p_generation[k] AND n.schedulable
                   FOR NO KEY UPDATE SKIP LOCKED;
            ELSE
                SELECT n.id, n.num, n.generation, n.free_mask,
                       array_remove(ARRAY[n.fabric, n.fabric_seen], '')
                  INTO v_id, v_num, v_generation, v_free, v_fabrics
                  FROM placement_node n
                 WHERE n.num = p_num[k] AND n.generation = p_generation[k] AND n.schedulable
                   FOR NO KEY UPDATE;
            END IF;
            IF NOT FOUND THEN
                v_num := -1;
                CONTINUE;
            END IF;
        END IF;
        CONTINUE WHEN v_generation <> p_generation[k] OR (v_free & p_mask[k]) <> p_mask[k];
        IF v_fabrics <> '{}' THEN
            CONTINUE WHEN NOT placement_fabrics_open(
                v_fabrics, v_num, (p_items -> p_item[k] ->> 'tenant')::uuid,
                coalesce((p_items -> p_item[k] ->> 'alone')::int, 0), v_items);
        END IF;
        v_part := NULL;
        IF p_parts IS NOT NULL AND jsonb_typeof(p_parts -> (k - 1)) = 'object' THEN
            v_part := p_parts -> (k - 1);
            UPDATE placement_cutslot q
               SET taken = q.taken + (v_part ->> 'span')::int4multirange,
                   state = q.state | (v_part ->> 'bits')::int,
                   free_milli = q.free_milli - (v_part ->> 'milli')::int,
                   memory_used_mib = q.memory_used_mib + (v_part ->> 'memory_mib')::int,
                   holder = CASE WHEN q.cut = 'share'
                                 THEN (p_items -> p_item[k] ->> 'tenant')::uuid END
              FROM placement_slot s
             WHERE q.node_num = v_num AND q.slot_index = (v_part ->> 'slot')::int AND q.open
               AND NOT q.taken && (v_part ->> 'span')::int4multirange AND s.id = q.slot_id
            RETURNING s.id, s.devices INTO v_slot, v_devices;
            CONTINUE WHEN NOT FOUND;
        END IF;
        v_generation := v_generation + 1;
        v_free := v_free & ~p_mask[k];
        v_changed := true;
        v_done := p_item[k];
        v_item := jsonb_populate_record(NULL::placement_item, p_items -> v_done);
        v_item.node := v_id;
        v_item.num := v_num;
        v_item.mask := p_mask[k];
        IF v_part IS NULL THEN
            SELECT array_agg(s.id), array_agg(s.index::int), jsonb_agg(s.devices)
              INTO v_item.slot_ids, v_item.indices, v_item.bundle
              FROM (SELECT s.id, s.index, s.devices FROM placement_slot s
                     WHERE s.node_id = v_id AND s.state = 'approved'
                       AND (p_mask[k] >> s.index) & 1 = 1
                     ORDER BY s.index) s;
        ELSE
            -- A part has no device of the slot but a piece of its GPU, with its share of memory.
            v_item.part := v_part || jsonb_build_object('slot_id', v_slot);
            v_item.indices := ARRAY[(v_part ->> 'slot')::int];
            v_item.bundle := jsonb_build_array(v_devices || jsonb_build_object(
                'part', v_part -> 'part', 'nic', NULL, 'nvme', NULL, 'nic_mode', 'shared',
                'nvme_mode', 'shared', 'extra_nics', '[]'::jsonb, 'extra_nvmes', '[]'::jsonb,
                'memory_bytes', (v_devices ->> 'memory_bytes')::bigint
                                * (v_part ->> 'milli')::int / 1000));
            v_parts := v_parts + 1;
        END IF;
        v_items := v_items || v_item;
        v_waited := v_waited + v_item.queued::int;
    END LOOP;
    IF v_changed THEN
        UPDATE placement_node n
           SET generation = v_generation, free_mask = v_free,
               free_count = bit_count(v_free::bit(64))
         WHERE n.id = v_id;
    END IF;
    IF v_done < 0 THEN
        IF p_key IS NOT NULL THEN
            RAISE EXCEPTION 'no place holds' USING ERRCODE = 'GP004';
        END IF;
        RETURN;
    END IF;

    IF v_waited < cardinality(v_items) THEN
        INSERT INTO admission_admissionrequest (
               id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool,
               slots, replicas, amount_milli, wait, band, spec, state, version, code, detail,
               allocation_id, run_id, actor, workload_id, subject_id)
        SELECT request, tenant, project, action, sku, class, tier_id, pool, slots, replicas,
               total, wait, band, spec, 'admitted', 1, '', '', allocation, run, actor, workload,
               subject
          FROM unnest(v_items) WHERE lead AND NOT queued;
        INSERT INTO kernel_workflowrun (
               id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
               actor, correlation, due_at, deadline_at, lease_epoch)
        SELECT run, 'allocation.create', tenant, 'placement.allocation', allocation, 'running',
               'provision', 1, p_steps, jsonb_build_object('task', task), actor, correlation,
               v_at + make_interval(secs => task_s), v_at + make_interval(secs => run_s), 0
          FROM unnest(v_items) WHERE NOT queued;
    END IF;
    IF v_waited > 0 THEN
        UPDATE admission_admissionrequest r
           SET state = 'admitted', code = '', detail = '', allocation_id = x.allocation,
               version = r.version + 1, state_since = v_at
          FROM unnest(v_items) x WHERE x.queued AND r.id = x.request AND r.state = 'queued';
        GET DIAGNOSTICS v_n = ROW_COUNT;
        IF v_n <> v_waited THEN
            RAISE EXCEPTION 'a queued request left the queue' USING ERRCODE = 'GP002';
        END IF;
        UPDATE kernel_workflowrun r
           SET state = 'running', step = 'provision', attempt = 1, steps = p_steps,
               subject_kind = 'placement.allocation', subject_id = x.allocation,
               input = jsonb_build_object('task', x.task), updated_at = v_at,
               due_at = v_at + make_interval(secs => x.task_s),
               deadline_at = v_at + make_interval(secs => x.run_s)
          FROM unnest(v_items) x WHERE x.queued AND r.id = x.run;
    END IF;
    INSERT INTO admission_decision (
           id, tenant_id, request_id, verdict, code, gates, winner, runner_up, why,
           envelope_version, digest, facts, policy_version)
    SELECT decision, tenant, request, 'admit', '', gates,
           jsonb_build_object('node_num', num, 'slots', to_jsonb(indices)), runner_up, why,
           envelope_version, digest, facts, policy_version
      FROM unnest(v_items) WHERE lead;
    INSERT INTO placement_allocation (
           id, tenant_id, project_id, request_id, sku_id, name, shape, slots, tier, state,
           version, outcome, outcome_code, outcome_detail, node_id, run_id, attempt, image,
           hostname, ssh_keys, observed, observed_detail, price_hour_micro, currency, workload_id)
    SELECT allocation, tenant, project, request, sku, name, shape, slots, tier, 'placed', 1,
           '', '', '', node, run, 1, image, hostname, ssh_keys, 'unknown', '', price, currency,
           workload
      FROM unnest(v_items);
    INSERT INTO placement_claim (
           id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
           resource_class_id, amount_milli, state, version, holder, attempt, boot_id,
           alone)
    SELECT c.id, x.tenant, x.allocation, x.node, x.num, c.slot, c.index,
           int4multirange(int4range(c.index * 1000, (c.index + 1) * 1000)),
           x.class, x.units, 'reserved', 1, 'tenant', 1, '', coalesce(x.alone, 0)
      FROM unnest(v_items) x
     CROSS JOIN LATERAL unnest(x.claims, x.slot_ids, x.indices) AS c(id, slot, index)
     WHERE NOT x.whole AND x.part IS NULL
     UNION ALL
    SELECT claims[1], tenant, allocation, node, num, NULL, -1,
           int4multirange(int4range(0, 2147483647)), class, amount, 'reserved', 1,
           'tenant', 1, '', coalesce(alone, 0)
      FROM unnest(v_items) WHERE whole;
    INSERT INTO placement_claimdevice (claim_id, uid, live)
    SELECT CASE WHEN x.whole THEN x.claims[1] ELSE c.id END, d.uid, true
      FROM unnest(v_items) x
     CROSS JOIN LATERAL unnest(x.claims, x.slot_ids) AS c(id, slot)
      JOIN placement_slot s ON s.id = c.slot
     CROSS JOIN LATERAL unnest(s.device_uids) AS d(uid);
    IF v_parts > 0 THEN
        INSERT INTO placement_claim (
               id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
               resource_class_id, amount_milli, state, version, holder, attempt, boot_id,
               alone, part)
        SELECT claims[1], tenant, allocation, node, num, (part ->> 'slot_id')::uuid, indices[1],
               (part ->> 'span')::int4multirange, class, units, 'reserved', 1, 'tenant', 1, '',
               coalesce(alone, 0),
               part -> 'part' || jsonb_build_object('bits', (part ->> 'bits')::int)
          FROM unnest(v_items) WHERE part IS NOT NULL;
        INSERT INTO placement_claimdevice (claim_id, uid, live)
        SELECT x.claims[1], concat('mig:', s.gpu_uuid, ':', x.part ->> 'uid'), true
          FROM unnest(v_items) x JOIN placement_slot s ON s.id = (x.part ->> 'slot_id')::uuid
         WHERE x.part ->> 'uid' IS NOT NULL;
    END IF;
    INSERT INTO placement_nodetask (
           id, node_id, kind, allocation_id, state, version, params, claim_attempt, attempt,
           max_attempts, lease_epoch, boot_id, deadline_at, step, run_id)
    SELECT task, node, kind, allocation, 'pending', 1,
           jsonb_build_object(
               'allocation_id', allocation, 'image', image, 'ssh_keys', ssh_keys,
               'hostname', hostname, CASE WHEN whole THEN 'devices' ELSE 'slots' END, bundle),
           1, 0, 5, 0, '', v_at + make_interval(secs => task_s), '', run
      FROM unnest(v_items);
    WITH happened AS (
        INSERT INTO kernel_event (
               uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
               facts, correlation)
        SELECT e.uid, x.tenant, e.kind, e.subject_kind, e.subject, x.actor, e.before, e.after, '',
               e.facts, x.correlation
          FROM unnest(v_items) x
         CROSS JOIN LATERAL (VALUES
               (x.uids[1], 'admission.admissionrequest.admit', 'admission.admissionrequest',
                x.request,
                jsonb_build_object('state', CASE WHEN x.queued THEN 'queued' ELSE 'received' END),
                '{"state": "admitted"}'::jsonb, jsonb_build_object('decision', x.decision)),
               (x.uids[2], 'placement.allocation.place', 'placement.allocation', x.allocation,
                NULL, '{"state": "placed"}'::jsonb,
                jsonb_build_object('node_num', x.num, 'slots', to_jsonb(x.indices), 'sku', x.sku,
                                   'amount_milli', x.amount))
               ) AS e(uid, kind, subject_kind, subject, before, after, facts)
         WHERE x.lead OR e.kind <> 'admission.admissionrequest.admit'
        RETURNING id, kind, subject_id
    )
    INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
    SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
      FROM happened
      JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true;

    IF cardinality(v_items) = 1 THEN
        PERFORM tenants_charge_one(v_item.tenant, v_item.project, v_item.class, v_item.amount);
    ELSE
        PERFORM tenants_charge_many(array_agg(c.tenant ORDER BY c.last),
                                    array_agg(c.project ORDER BY c.last),
                                    array_agg(c.class ORDER BY c.last),
                                    array_agg(c.amount ORDER BY c.last))
           FROM (SELECT x.tenant, x.project, x.class, sum(x.amount)::bigint AS amount,
                        max(x.i) AS last
                   FROM unnest(v_items) x GROUP BY x.tenant, x.project, x.class) c;
    END IF;

    RETURN QUERY SELECT x.i, x.num, x.mask, NULL::text, NULL::text FROM unnest(v_items) x;
EXCEPTION
WHEN SQLSTATE 'GP004' THEN
    RETURN;
WHEN SQLSTATE 'GP001' OR SQLSTATE 'GP002' OR SQLSTATE 'GP003' OR lock_not_available THEN
    IF SQLSTATE = '55P03' AND NOT v_key_waits THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    RETURN QUERY SELECT -1, 0, 0::bigint, CASE SQLSTATE WHEN 'GP001' THEN v_hint
                                               ELSE SQLSTATE END, v_detail;
END $$;
