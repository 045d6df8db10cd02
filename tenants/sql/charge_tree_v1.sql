-- Charge tenants for what they take, from the project over the tenant to the root of its
-- cohorts, each counter under its lock. The rows of a batch come in the order of the queue.
-- Locks: class by class; in each the projects, then the tenants, then the cohorts from the
-- deepest to the root; so no two batches, returns or changes of limits wait for each other.
-- Raises GP001 when somebody may not hold that much: DETAIL is the tenant, HINT the reason's
-- code. For a cohort that is exhausted the last row of the batch that needs it is named.
CREATE OR REPLACE FUNCTION tenants_refuse(p_tenant uuid, p_code text, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no authority to take % more', p_amount
          USING ERRCODE = 'GP001', DETAIL = p_tenant::text, HINT = p_code;
END $$;

-- Grow a cohort's use and its ancestors' as far as the growth reaches beyond what is
-- guaranteed. Returns false when a limit does not allow it; the caller raises.
CREATE OR REPLACE FUNCTION tenants_cohort_grow(p_cohort uuid, p_class uuid, p_grown bigint)
RETURNS TABLE (parent uuid, grown bigint, allowed boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v record; v_kept bigint;
BEGIN
    SELECT c.id, c.quota_milli, c.used_milli, c.borrow_milli, c.guaranteed_milli,
           c.grandfathered_milli, h.parent_id
      INTO v
      FROM tenants_cohortcounter c JOIN tenants_cohort h ON h.id = c.cohort_id
     WHERE c.cohort_id = p_cohort AND c.resource_class_id = p_class
       FOR NO KEY UPDATE OF c;
    IF NOT FOUND
       OR (v.parent_id IS NULL
           AND v.used_milli + p_grown > v.quota_milli + v.grandfathered_milli)
       OR (v.parent_id IS NOT NULL AND v.borrow_milli IS NOT NULL
           AND v.used_milli + p_grown
               > v.quota_milli + v.borrow_milli + v.grandfathered_milli) THEN
        RETURN QUERY SELECT NULL::uuid, 0::bigint, false;
        RETURN;
    END IF;
    UPDATE tenants_cohortcounter SET used_milli = used_milli + p_grown WHERE id = v.id;
    v_kept := v.guaranteed_milli;
    RETURN QUERY SELECT v.parent_id,
                        greatest(0, v.used_milli + p_grown - v_kept)
                        - greatest(0, v.used_milli - v_kept), true;
END $$;

CREATE OR REPLACE FUNCTION tenants_charge_project(
    p_tenant uuid, p_project uuid, p_class uuid, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
BEGIN
    UPDATE tenants_projectquota q
       SET used_milli = q.used_milli + p_amount
     WHERE q.project_id = p_project AND q.resource_class_id = p_class
       AND (q.limit_milli IS NULL
            OR q.used_milli + p_amount <= q.limit_milli + q.grandfathered_milli);
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT q.id, q.used_milli, q.limit_milli, q.grandfathered_milli INTO v
      FROM tenants_projectquota q
     WHERE q.project_id = p_project AND q.resource_class_id = p_class
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO tenants_projectquota (
               tenant_id, project_id, resource_class_id, limit_milli, used_milli,
               grandfathered_milli)
        VALUES (p_tenant, p_project, p_class, NULL, 0, 0)
        ON CONFLICT (project_id, resource_class_id) DO NOTHING;
        SELECT q.id, q.used_milli, q.limit_milli, q.grandfathered_milli INTO STRICT v
          FROM tenants_projectquota q
         WHERE q.project_id = p_project AND q.resource_class_id = p_class
           FOR NO KEY UPDATE;
    END IF;
    IF v.used_milli + p_amount > v.limit_milli + v.grandfathered_milli THEN
        PERFORM tenants_refuse(p_tenant, 'project_quota_exceeded', p_amount);
    END IF;
    UPDATE tenants_projectquota SET used_milli = used_milli + p_amount WHERE id = v.id;
END $$;

-- The tenant's own counter: its cohort, and the growth beyond what is guaranteed to it.
CREATE OR REPLACE FUNCTION tenants_charge_counter(p_tenant uuid, p_class uuid, p_amount bigint)
RETURNS TABLE (cohort uuid, grown bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v record;
BEGIN
    UPDATE tenants_quotacounter q
       SET used_milli = q.used_milli + p_amount
     WHERE q.tenant_id = p_tenant AND q.resource_class_id = p_class AND q.admitting
       AND q.used_milli + p_amount <= q.limit_milli + q.borrow_milli + q.grandfathered_milli
    RETURNING q.cohort_id, q.used_milli, q.guaranteed_milli INTO v;
    IF NOT FOUND THEN
        SELECT q.admitting INTO v FROM tenants_quotacounter q
         WHERE q.tenant_id = p_tenant AND q.resource_class_id = p_class;
        PERFORM tenants_refuse(p_tenant, CASE
            WHEN NOT FOUND THEN 'authority_incomplete'
            WHEN NOT v.admitting THEN 'tenant_not_admitting'
            ELSE 'envelope_exceeded' END, p_amount);
    END IF;
    RETURN QUERY SELECT v.cohort_id,
                        greatest(0, v.used_milli - v.guaranteed_milli)
                        - greatest(0, v.used_milli - p_amount - v.guaranteed_milli);
END $$;

CREATE OR REPLACE FUNCTION tenants_charge_one(
    p_tenant uuid, p_project uuid, p_class uuid, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_cohort uuid; v_grown bigint; v_step record;
BEGIN
    IF p_project IS NOT NULL THEN
        PERFORM tenants_charge_project(p_tenant, p_project, p_class, p_amount);
    END IF;
    SELECT c.cohort, c.grown INTO v_cohort, v_grown
      FROM tenants_charge_counter(p_tenant, p_class, p_amount) c;
    WHILE v_cohort IS NOT NULL AND v_grown > 0 LOOP
        SELECT * INTO v_step FROM tenants_cohort_grow(v_cohort, p_class, v_grown);
        IF NOT v_step.allowed THEN
            PERFORM tenants_refuse(p_tenant, 'cohort_exhausted', v_grown);
        END IF;
        v_cohort := v_step.parent;
        v_grown := v_step.grown;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenants_charge_many(
    p_tenant uuid[], p_project uuid[], p_class uuid[], p_amount bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_class uuid; v record; v_step record; v_depth int;
    w_cohort uuid[]; w_grown bigint[]; w_row int[];
BEGIN
    IF cardinality(p_tenant) = 1 THEN
        PERFORM tenants_charge_one(p_tenant[1], p_project[1], p_class[1], p_amount[1]);
        RETURN;
    END IF;
    FOR v_class IN SELECT DISTINCT u.c FROM unnest(p_class) AS u(c) ORDER BY u.c LOOP
        FOR v IN
            SELECT u.t, u.p, sum(u.a)::bigint AS a
              FROM unnest(p_tenant, p_project, p_class, p_amount) AS u(t, p, c, a)
             WHERE u.c = v_class AND u.p IS NOT NULL
             GROUP BY u.t, u.p ORDER BY u.p
        LOOP
            PERFORM tenants_charge_project(v.t, v.p, v_class, v.a);
        END LOOP;

        w_cohort := '{}'; w_grown := '{}'; w_row := '{}';
        FOR v IN
            SELECT u.t, sum(u.a)::bigint AS a, max(u.n)::int AS n
              FROM unnest(p_tenant, p_class, p_amount) WITH ORDINALITY AS u(t, c, a, n)
             WHERE u.c = v_class
             GROUP BY u.t ORDER BY u.t
        LOOP
            SELECT * INTO v_step FROM tenants_charge_counter(v.t, v_class, v.a);
            IF v_step.cohort IS NOT NULL AND v_step.grown > 0 THEN
                w_cohort := w_cohort || v_step.cohort;
                w_grown := w_grown || v_step.grown;
                w_row := w_row || v.n;
            END IF;
        END LOOP;

        CONTINUE WHEN cardinality(w_cohort) = 0;
        SELECT max(h.depth) INTO v_depth FROM tenants_cohort h WHERE h.id = ANY (w_cohort);
        WHILE v_depth >= 0 LOOP
            FOR v IN
                SELECT u.cohort, sum(u.grown)::bigint AS grown, max(u.n) AS n
                  FROM unnest(w_cohort, w_grown, w_row) AS u(cohort, grown, n)
                  JOIN tenants_cohort h ON h.id = u.cohort AND h.depth = v_depth
                 GROUP BY u.cohort ORDER BY u.cohort
            LOOP
                SELECT * INTO v_step FROM tenants_cohort_grow(v.cohort, v_class, v.grown);
                IF NOT v_step.allowed THEN
                    PERFORM tenants_refuse(p_tenant[v.n], 'cohort_exhausted', v.grown);
                END IF;
                IF v_step.parent IS NOT NULL AND v_step.grown > 0 THEN
                    w_cohort := w_cohort || v_step.parent;
                    w_grown := w_grown || v_step.grown;
                    w_row := w_row || v.n;
                END IF;
            END LOOP;
            v_depth := v_depth - 1;
        END LOOP;
    END LOOP;
END $$;

-- One tenant and class, in no project: for callers that charge nothing else.
CREATE OR REPLACE FUNCTION tenants_charge(p_tenant uuid, p_class uuid, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenants_charge_one(p_tenant, NULL, p_class, p_amount);
END $$;
