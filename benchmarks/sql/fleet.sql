-- A fleet of any size, loaded set-based, and its return to where it was.
-- A stable number in [0, 1) for a node and slot, so that every load of a size is the same.
CREATE FUNCTION bench.chance(p_node int, p_slot int) RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashint8(p_node * 64::bigint + p_slot)::bigint + 2147483648) / 4294967296.0
$$;

-- Empty everything that claims and nodes write; the catalogue and the tenants stay.
CREATE FUNCTION bench.reset() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE placement_node, placement_slot, placement_claim, placement_claimdevice,
             placement_allocation, placement_nodetask, placement_cutslot, admission_admissionrequest,
             admission_decision, kernel_workflowrun, kernel_event, kernel_delivery,
             kernel_idempotencykey, kernel_eventseal CASCADE;
    ALTER SEQUENCE placement_node_num RESTART;
    UPDATE tenants_quotacounter SET used_milli = 0, grandfathered_milli = 0;
    UPDATE tenants_projectquota SET used_milli = 0, grandfathered_milli = 0;
END $$;

-- p_nodes hosts of p_slots slots in a pool; every slot is held with the chance p_fill by one of the
-- tenants (one allocation a host), and every p_closed-th host takes no work (0: none). Rows go in
-- without triggers and without looking up foreign keys, as from a backup; indexes are kept.
CREATE FUNCTION bench.load(p_pool text, p_family text, p_sku text, p_nodes int, p_fill float,
                           p_closed int, p_slots int DEFAULT 8)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_pool uuid := (SELECT id FROM placement_pool WHERE name = p_pool);
    v_family uuid := (SELECT id FROM placement_nodefamily WHERE name = p_family);
    v_first int := coalesce((SELECT max(num) FROM placement_node), 0);
    v_layout text := (SELECT string_agg(format('%s.%s.0.%s', k / 4, k / 2, k), '|' ORDER BY k)
                        FROM generate_series(0, p_slots - 1) AS k);
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    INSERT INTO placement_node (
           id, version, name, state, intended, zone, block, rack, generation, slot_count,
           free_count, free_mask, exclusive_mask, layout, schedulable, takes, boot_id, agent_version,
           last_seen_at, health, conditions, observed, observed_seq, topology, projected,
           family_id, pool_id)
    SELECT gen_random_uuid(), 1, format('%s-%s', p_pool, v_first + g), 'ready', 'any', 'z1', 'b1',
           format('r%s', g / 16), 1, p_slots, p_slots, (1::bigint << p_slots) - 1,
           (1::bigint << p_slots) - 1, v_layout, p_closed = 0 OR g % p_closed <> 0, 'any',
           'boot-1', '1.0', now(), 'ok', '[]', '{}', 1, '{}', '{}', v_family, v_pool
      FROM generate_series(1, p_nodes) AS g;

    INSERT INTO placement_slot (
           id, version, index, state, gpu_uuid, gpu_index, numa, switch, nvlink_domain, cpuset,
           memory_bytes, nic, nic_mode, nvme, nvme_mode, devices, device_uids, block_reason,
           node_id)
    SELECT gen_random_uuid(), 1, k, 'approved', format('GPU-%s-%s', n.num, k), k, k / 4,
           format('s%s', k / 2), 'd0', format('%s-%s', k * 16, k * 16 + 15), 137438953472,
           format('mlx5_%s', k), 'exclusive', format('nvme%s', k), 'exclusive',
           jsonb_build_object(
               'slot_index', k, 'gpu_uuid', format('GPU-%s-%s', n.num, k),
               'nic', format('mlx5_%s', k), 'nvme', format('nvme%s', k), 'numa', k / 4,
               'cpuset', format('%s-%s', k * 16, k * 16 + 15), 'memory_bytes', 137438953472,
               'nic_mode', 'exclusive', 'nvme_mode', 'exclusive', 'extra_nics', '[]'::jsonb,
               'extra_nvmes', '[]'::jsonb),
           ARRAY[format('gpu:GPU-%s-%s', n.num, k), format('nic:%s:mlx5_%s', n.num, k),
                 format('nvme:%s:nvme%s', n.num, k)],
           '', n.id
      FROM placement_node n, generate_series(0, p_slots - 1) AS k
     WHERE n.num > v_first;
    PERFORM bench.fill(p_pool, p_sku, 0, p_fill, v_first);
    PERFORM set_config('session_replication_role', 'origin', true);
END $$;

-- Hold slots that are free and whose chance is from p_from on and below p_to, on the pool's hosts
-- beyond the p_first-th: what was loaded for one fill becomes the next.
CREATE FUNCTION bench.fill(p_pool text, p_sku text, p_from float, p_to float, p_first int DEFAULT 0)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    CREATE TEMPORARY TABLE held ON COMMIT DROP AS
    SELECT n.id AS node, n.num, gen_random_uuid() AS allocation, gen_random_uuid() AS request,
           t.tenant_id, t.project_id, t.class_id, t.tier_id, s.id AS sku,
           array_agg(k ORDER BY k) AS slots, sum(1::bigint << k)::bigint AS mask,
           count(*)::int AS size
      FROM placement_node n
      JOIN placement_pool p ON p.id = n.pool_id AND p.name = p_pool
      CROSS JOIN LATERAL generate_series(0, n.slot_count - 1) AS k
      JOIN bench.holder t ON t.i = n.num % (SELECT count(*) FROM bench.holder)
      JOIN tenants_sku s ON s.name = p_sku
     WHERE n.num > p_first AND n.free_mask >> k & 1 = 1
       AND bench.chance(n.num, k) >= p_from AND bench.chance(n.num, k) < p_to
     GROUP BY n.id, n.num, t.tenant_id, t.project_id, t.class_id, t.tier_id, s.id;
    INSERT INTO admission_admissionrequest (
           id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool, slots,
           amount_milli, wait, band, spec, state, version, code, detail, allocation_id, actor)
    SELECT request, tenant_id, project_id, 'allocation.create', sku, class_id, tier_id, p_pool,
           size, size * 1000, false, 1, '{}', 'admitted', 1, '', '', allocation, '{}'
      FROM held;
    INSERT INTO placement_allocation (
           id, tenant_id, project_id, request_id, sku_id, name, shape, slots, tier, state, version,
           outcome, outcome_code, outcome_detail, node_id, run_id, attempt, image, hostname,
           ssh_keys, observed, observed_detail, price_hour_micro, currency)
    SELECT allocation, tenant_id, project_id, request, sku, 'held', 'gpu_slice', size, 'bench',
           'active', 1, '', '', '', node, gen_random_uuid(), 1, 'bench', 'bench', '[]', 'present',
           '', 0, 'USD'
      FROM held;
    INSERT INTO placement_claim (
           id, tenant_id, allocation_id, node_id, node_num, slot_id, slot_index, span,
           resource_class_id, amount_milli, state, version, holder, attempt, boot_id)
    SELECT gen_random_uuid(), h.tenant_id, h.allocation, h.node, h.num, s.id, s.index,
           int4multirange(int4range(s.index * 1000, (s.index + 1) * 1000)), h.class_id, 1000,
           'active', 1, 'tenant', 1, ''
      FROM held h JOIN placement_slot s ON s.node_id = h.node AND s.index = ANY (h.slots);
    INSERT INTO placement_claimdevice (claim_id, uid, live)
    SELECT c.id, u.uid, true
      FROM placement_claim c JOIN placement_slot s ON s.id = c.slot_id
      CROSS JOIN LATERAL unnest(s.device_uids) AS u(uid)
     WHERE c.allocation_id IN (SELECT allocation FROM held);
    UPDATE placement_node n
       SET free_mask = n.free_mask & ~h.mask, free_count = n.free_count - h.size
      FROM held h WHERE n.id = h.node;
    UPDATE tenants_quotacounter c SET used_milli = used_milli + h.amount
      FROM (SELECT tenant_id, class_id, sum(size) * 1000 AS amount FROM held GROUP BY 1, 2) h
     WHERE c.tenant_id = h.tenant_id AND c.resource_class_id = h.class_id;
    INSERT INTO tenants_projectquota AS q (
           tenant_id, project_id, resource_class_id, used_milli, grandfathered_milli)
    SELECT tenant_id, project_id, class_id, sum(size) * 1000, 0 FROM held GROUP BY 1, 2, 3
        ON CONFLICT (project_id, resource_class_id)
        DO UPDATE SET used_milli = q.used_milli + excluded.used_milli;
    DROP TABLE held;
    PERFORM set_config('session_replication_role', 'origin', true);
END $$;

-- Let every p_closed-th host of a pool take no work, and the others take it (0: all do).
CREATE FUNCTION bench.close(p_pool text, p_closed int) RETURNS void LANGUAGE sql AS $$
    UPDATE placement_node n SET schedulable = NOT n.schedulable
      FROM placement_pool p
     WHERE p.id = n.pool_id AND p.name = p_pool
       AND n.schedulable <> (p_closed = 0 OR n.num % greatest(p_closed, 1) <> 0)
$$;

-- p_nodes hosts of two GPUs, one cut for MIG and one for shares; with the chance p_fill a cut GPU
-- has nothing left, as if parts were on all of it.
CREATE FUNCTION bench.load_parts(p_pool text, p_family text, p_sku text, p_nodes int, p_fill float)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_first int := coalesce((SELECT max(num) FROM placement_node), 0);
BEGIN
    PERFORM bench.load(p_pool, p_family, p_sku, p_nodes, 0, 0, 2);
    UPDATE placement_node SET free_mask = 0, free_count = 0, part_kinds = ARRAY['mig', 'share']
     WHERE num > v_first;
    UPDATE placement_slot s SET cut = CASE WHEN s.index = 0 THEN 'mig' ELSE 'share' END
      FROM placement_node n WHERE n.id = s.node_id AND n.num > v_first;
    INSERT INTO placement_cutslot (
           slot_id, node_id, node_num, slot_index, pool_id, family_id, cut, board, memory_mib,
           state, taken, free_milli, memory_used_mib, open)
    SELECT s.id, n.id, n.num, s.index, n.pool_id, n.family_id, s.cut,
           CASE WHEN s.index = 0 THEN 'h100-80' ELSE '' END, 81920,
           CASE WHEN s.index = 0 AND full_ THEN 255 ELSE 0 END,
           CASE WHEN full_ THEN int4multirange(int4range(s.index * 1000, (s.index + 1) * 1000))
                ELSE '{}' END,
           CASE WHEN full_ THEN 0 ELSE 1000 END, CASE WHEN full_ THEN 81920 ELSE 0 END, true
      FROM placement_slot s JOIN placement_node n ON n.id = s.node_id
      CROSS JOIN LATERAL (SELECT bench.chance(n.num, s.index) < p_fill AS full_) AS one
     WHERE n.num > v_first;
END $$;


-- Undo one allocation at once, as if it had been cleaned and proven: not part of any figure.
CREATE FUNCTION bench.undo(p_allocation uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_node uuid; v_tenant uuid; v_class uuid; v_mask bigint; v_amount bigint;
BEGIN
    SELECT node_id INTO v_node FROM placement_allocation WHERE id = p_allocation;
    PERFORM FROM placement_node WHERE id = v_node FOR NO KEY UPDATE;
    UPDATE placement_claim SET state = 'releasing' WHERE allocation_id = p_allocation;
    UPDATE placement_claim SET state = 'released', ended_at = now()
     WHERE allocation_id = p_allocation;
    SELECT min(tenant_id::text)::uuid, min(resource_class_id::text)::uuid, sum(amount_milli),
           CASE WHEN min(slot_index) < 0 THEN 255
                ELSE coalesce(sum(1 << slot_index) FILTER (WHERE part IS NULL), 0) END
      INTO v_tenant, v_class, v_amount, v_mask
      FROM placement_claim WHERE allocation_id = p_allocation;
    UPDATE placement_claimdevice d SET live = false
      FROM placement_claim c WHERE c.id = d.claim_id AND c.allocation_id = p_allocation;
    UPDATE placement_allocation SET state = 'releasing' WHERE id = p_allocation;
    UPDATE placement_allocation SET state = 'released', released_at = now()
     WHERE id = p_allocation;
    UPDATE placement_node SET generation = generation + 1, free_mask = free_mask | v_mask,
           free_count = bit_count((free_mask | v_mask)::bit(64))
     WHERE id = v_node;
    PERFORM placement_cut_recount(v_node)
       FROM placement_claim WHERE allocation_id = p_allocation AND part IS NOT NULL;
    -- The order of locks that charging has: the project, then the tenant.
    UPDATE tenants_projectquota SET used_milli = used_milli - v_amount
     WHERE resource_class_id = v_class AND project_id = (
           SELECT project_id FROM placement_allocation WHERE id = p_allocation);
    UPDATE tenants_quotacounter SET used_milli = used_milli - v_amount
     WHERE tenant_id = v_tenant AND resource_class_id = v_class;
END $$;

-- Requests that wait for a pool, with their runs, for the cycle to take.
CREATE FUNCTION bench.queue(p_pool text, p_sku text, p_count int, p_slots int, p_image text,
                            p_actor jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMPORARY TABLE waiting ON COMMIT DROP AS
    SELECT gen_random_uuid() AS request, gen_random_uuid() AS run, g, t.*, s.id AS sku
      FROM generate_series(1, p_count) AS g
      JOIN bench.holder t ON t.i = g % (SELECT count(*) FROM bench.holder)
      JOIN tenants_sku s ON s.name = p_sku;
    INSERT INTO admission_admissionrequest (
           id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool, slots,
           amount_milli, wait, band, spec, state, version, code, detail, run_id, actor, queued_at)
    SELECT request, tenant_id, project_id, 'allocation.create', sku, class_id, tier_id, p_pool,
           p_slots, p_slots * 1000, true, 1,
           jsonb_build_object('name', format('queued-%s', g), 'image', p_image,
                              'ssh_keys', '[]'::jsonb, 'tier', ''),
           'queued', 2, 'waiting_for_capacity', 'waits', run, p_actor,
           clock_timestamp() + g * interval '1 microsecond'
      FROM waiting;
    INSERT INTO kernel_workflowrun (
           id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
           actor, correlation, due_at, deadline_at, lease_epoch)
    SELECT run, 'allocation.create', tenant_id, 'admission.admissionrequest', request, 'pending',
           '', 0, '[]', jsonb_build_object('request', request), p_actor, '',
           now() + interval '1 hour', now() + interval '2 hours', 0
      FROM waiting;
END $$;
