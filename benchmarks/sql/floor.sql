-- The comparison: one hand-written function that writes the rows of one claim, best fit in SQL.
--
-- It takes what a decision would have found out as arguments (p_gates, p_spec, p_actor …) and
-- decides nothing: no authority, no wiring, no second choice. The same tables, the same rows:
-- request, decision, allocation, claims, devices, node, task, run, two events, the project's and the tenant's counter.
CREATE FUNCTION bench.claim(
    p_tenant uuid, p_project uuid, p_sku uuid, p_class uuid, p_tier uuid, p_pool text,
    p_pool_id uuid, p_family uuid, p_slots int, p_gates jsonb, p_spec jsonb, p_actor jsonb,
    p_steps jsonb, p_params jsonb, p_runner_up jsonb, p_why text, p_digest text, p_facts jsonb,
    p_policy text)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    v_node uuid; v_num int; v_free bigint; v_mask bigint := 0; v_k int := 0; v_left int := p_slots;
    v_request uuid := uuidv7(); v_decision uuid := uuidv7(); v_allocation uuid := uuidv7();
    v_run uuid := uuidv7(); v_task uuid := uuidv7(); v_indices jsonb; v_bundle jsonb;
BEGIN
    SELECT id, num, free_mask INTO v_node, v_num, v_free FROM placement_node
     WHERE pool_id = p_pool_id AND family_id = p_family AND schedulable
       AND free_count >= p_slots AND intended <> 'baremetal'
     ORDER BY free_count, num LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WHILE v_left > 0 LOOP
        IF (v_free >> v_k) & 1 = 1 THEN
            v_mask := v_mask | (1::bigint << v_k);
            v_left := v_left - 1;
        END IF;
        v_k := v_k + 1;
    END LOOP;
    UPDATE placement_node
       SET generation = generation + 1, free_mask = free_mask & ~v_mask,
           free_count = free_count - p_slots
     WHERE id = v_node;
    SELECT jsonb_agg(index ORDER BY index), jsonb_agg(devices ORDER BY index)
      INTO v_indices, v_bundle
      FROM placement_slot
     WHERE node_id = v_node AND state = 'approved' AND (v_mask >> index) & 1 = 1;
    INSERT INTO admission_admissionrequest (
           id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool,
           slots, amount_milli, wait, band, spec, state, version, code, detail,
           allocation_id, run_id, actor)
    VALUES (v_request, p_tenant, p_project, 'allocation.create', p_sku, p_class, p_tier, p_pool,
            p_slots, p_slots * 1000, false, 1, p_spec, 'admitted', 1, '', '', v_allocation, v_run,
            p_actor);
    INSERT INTO admission_decision (
           id, tenant_id, request_id, verdict, code, gates, winner, runner_up, why,
           envelope_version, digest, facts, policy_version)
    VALUES (v_decision, p_tenant, v_request, 'admit', '', p_gates,
            jsonb_build_object('node_num', v_num, 'slots', v_indices), p_runner_up, p_why, 1,
            p_digest, p_facts, p_policy);
    INSERT INTO placement_allocation (
           id, tenant_id, project_id, request_id, sku_id, name, shape, slots, tier, state,
           version, outcome, outcome_code, outcome_detail, node_id, run_id, attempt, image,
           hostname, ssh_keys, observed, observed_detail, price_hour_micro, currency)
    VALUES (v_allocation, p_tenant, p_project, v_request, p_sku, p_spec ->> 'name', 'gpu_slice',
            p_slots, 'bench', 'placed', 1, '', '', '', v_node, v_run, 1, p_spec ->> 'image',
            p_params ->> 'hostname', '[]', 'unknown', '', 2000000, 'USD');
    WITH claim AS (
        INSERT INTO placement_claim (
               id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
               resource_class_id, amount_milli, state, version, holder, attempt, boot_id)
        SELECT uuidv7(), p_tenant, v_allocation, v_node, v_num, s.id, s.index,
               int4multirange(int4range(s.index * 1000, (s.index + 1) * 1000)), p_class, 1000,
               'reserved', 1, 'tenant', 1, ''
          FROM placement_slot s
         WHERE s.node_id = v_node AND s.state = 'approved' AND (v_mask >> s.index) & 1 = 1
        RETURNING id, slot_id
    )
    INSERT INTO placement_claimdevice (claim_id, uid, live)
    SELECT claim.id, u.uid, true
      FROM claim JOIN placement_slot s ON s.id = claim.slot_id
      CROSS JOIN LATERAL unnest(s.device_uids) AS u(uid);
    INSERT INTO placement_nodetask (
           id, node_id, kind, allocation_id, state, version, params, claim_attempt, attempt,
           max_attempts, lease_epoch, boot_id, deadline_at, step, run_id)
    VALUES (v_task, v_node, 'slice.vm_provision', v_allocation, 'pending', 1,
            p_params || jsonb_build_object('allocation_id', v_allocation, 'slots', v_bundle), 1, 0,
            5, 0, '', clock_timestamp() + interval '600 s', '', v_run);
    INSERT INTO kernel_workflowrun (
           id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
           actor, correlation, due_at, deadline_at, lease_epoch)
    VALUES (v_run, 'allocation.create', p_tenant, 'placement.allocation', v_allocation, 'running',
            'provision', 1, p_steps, jsonb_build_object('task', v_task), p_actor, '',
            clock_timestamp() + interval '600 s', clock_timestamp() + interval '1800 s', 0);
    INSERT INTO kernel_event (
           uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
           facts, correlation)
    VALUES (uuidv7(), p_tenant, 'admission.admissionrequest.admit', 'admission.admissionrequest',
            v_request, p_actor, '{"state": "received"}', '{"state": "admitted"}', '',
            jsonb_build_object('decision', v_decision), ''),
           (uuidv7(), p_tenant, 'placement.allocation.place', 'placement.allocation',
            v_allocation, p_actor, NULL, '{"state": "placed"}', '',
            jsonb_build_object('node_num', v_num, 'slots', v_indices, 'sku', p_sku,
                               'amount_milli', p_slots * 1000), '');
    UPDATE tenants_projectquota SET used_milli = used_milli + p_slots * 1000
     WHERE project_id = p_project AND resource_class_id = p_class;
    IF NOT FOUND THEN
        INSERT INTO tenants_projectquota (
               tenant_id, project_id, resource_class_id, used_milli, grandfathered_milli)
        VALUES (p_tenant, p_project, p_class, p_slots * 1000, 0);
    END IF;
    UPDATE tenants_quotacounter SET used_milli = used_milli + p_slots * 1000
     WHERE tenant_id = p_tenant AND resource_class_id = p_class AND admitting
       AND used_milli + p_slots * 1000 <= limit_milli + grandfathered_milli;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'over the envelope';
    END IF;
    RETURN v_allocation;
END $$;
