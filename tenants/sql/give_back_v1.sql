-- Give back what ended claims took, from the project over the tenant to the root of its
-- cohorts, locking in the order in which a charge does. A grandfathered excess shrinks with it.
CREATE OR REPLACE FUNCTION tenants_give_back(
    p_tenant uuid, p_project uuid, p_class uuid, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record; v_cohort uuid; v_shrunk bigint;
BEGIN
    IF p_project IS NOT NULL THEN
        UPDATE tenants_projectquota q
           SET used_milli = q.used_milli - p_amount,
               grandfathered_milli = greatest(0, coalesce(
                   q.used_milli - p_amount - q.limit_milli, 0))
         WHERE q.project_id = p_project AND q.resource_class_id = p_class;
    END IF;
    UPDATE tenants_quotacounter q
       SET used_milli = q.used_milli - p_amount,
           grandfathered_milli = greatest(
               0, q.used_milli - p_amount - q.limit_milli - q.borrow_milli),
           drain_at = CASE WHEN q.used_milli - p_amount > q.limit_milli + q.borrow_milli
                           THEN q.drain_at END
     WHERE q.tenant_id = p_tenant AND q.resource_class_id = p_class
    RETURNING q.cohort_id, q.used_milli, q.guaranteed_milli INTO v;
    v_cohort := v.cohort_id;
    v_shrunk := greatest(0, v.used_milli + p_amount - v.guaranteed_milli)
                - greatest(0, v.used_milli - v.guaranteed_milli);
    WHILE v_cohort IS NOT NULL AND v_shrunk > 0 LOOP
        UPDATE tenants_cohortcounter c
           SET used_milli = c.used_milli - v_shrunk,
               grandfathered_milli = CASE
                   WHEN h.parent_id IS NULL
                   THEN greatest(0, c.used_milli - v_shrunk - c.quota_milli)
                   WHEN c.borrow_milli IS NULL THEN 0
                   ELSE greatest(0, c.used_milli - v_shrunk - c.quota_milli - c.borrow_milli)
               END
          FROM tenants_cohort h
         WHERE h.id = c.cohort_id AND c.cohort_id = v_cohort AND c.resource_class_id = p_class
        RETURNING h.parent_id, c.used_milli, c.guaranteed_milli INTO v;
        v_cohort := v.parent_id;
        v_shrunk := greatest(0, v.used_milli + v_shrunk - v.guaranteed_milli)
                    - greatest(0, v.used_milli - v.guaranteed_milli);
    END LOOP;
END $$;
