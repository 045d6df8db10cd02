-- What few requests meet, kept out of the statement that all of them run: starting the plan of a
-- part costs about as much as running it, and inside a function that is paid only by who needs it.

-- Who holds what on a node: tenant, mask, what was promised, and (last, 1) whether it is somewhere
-- in the NVLink domain that the node shares with other hosts, itself among them.
CREATE FUNCTION placement_held(p_num int, p_slots int, p_fabric text)
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

-- What a tenant with caps has: live allocations, waiting requests, millionths accrued this month,
-- millionths an hour now, and seconds left of the month.
CREATE FUNCTION placement_usage(p_tenant uuid)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_month timestamptz := date_trunc('month', statement_timestamp());
BEGIN
    RETURN ARRAY[
        (SELECT count(*) FROM placement_allocation a
          WHERE a.tenant_id = p_tenant AND a.state NOT IN ('released')),
        (SELECT count(*) FROM admission_admissionrequest q
          WHERE q.tenant_id = p_tenant AND q.state = 'queued' AND q.pool <> ''),
        (SELECT coalesce(sum(a.price_hour_micro * extract(epoch FROM
                    coalesce(a.released_at, statement_timestamp())
                    - greatest(a.created_at, v_month)) / 3600), 0)::bigint
           FROM placement_allocation a
          WHERE a.tenant_id = p_tenant
            AND coalesce(a.released_at, statement_timestamp()) > v_month),
        (SELECT coalesce(sum(a.price_hour_micro), 0)::bigint FROM placement_allocation a
          WHERE a.tenant_id = p_tenant AND a.state <> 'released'),
        extract(epoch FROM v_month + interval '1 month' - statement_timestamp())::bigint];
END $$;

-- The newest version of each named data set of a tenant, as JSON.
CREATE FUNCTION placement_datasets(p_tenant uuid, p_names text[])
RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT jsonb_agg(jsonb_build_array(d.name, d.version, d.zones, d.racks, d.nodes,
                                           d.required, d.storage))::text
          FROM (SELECT DISTINCT ON (v.name) v.* FROM tenants_dataset v
                 WHERE v.tenant_id = p_tenant AND v.name = ANY (p_names)
                   AND v.retired_at IS NULL
                 ORDER BY v.name, v.version DESC) d);
END $$;

-- The terms of an SKU, its tier and its pool, as JSON; NULL where there are none.
CREATE FUNCTION placement_terms(p_sku text, p_tier text, p_pool text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_agg(to_jsonb(p))::text FROM placement_placementterms p
             WHERE p.about IN ('sku:' || p_sku, 'tier:' || p_tier, 'pool:' || p_pool));
END $$;

-- The newest version of each storage system, as JSON.
CREATE FUNCTION placement_stores()
RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT jsonb_agg(jsonb_build_array(s.name, s.kind, s.version, s.zones))::text
          FROM (SELECT DISTINCT ON (v.name) v.* FROM tenants_storage v
                 WHERE v.retired_at IS NULL ORDER BY v.name, v.version DESC) s);
END $$;
