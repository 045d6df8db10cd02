-- Charge a tenant for what it takes of one class, under the counter's lock.
-- Raises GP001 when the tenant may not hold that much, or may not take more now.
CREATE OR REPLACE FUNCTION tenants_charge(p_tenant uuid, p_class uuid, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenants_quotacounter
       SET used_milli = used_milli + p_amount
     WHERE tenant_id = p_tenant AND resource_class_id = p_class AND admitting
       AND used_milli + p_amount <= limit_milli + grandfathered_milli;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the envelope does not allow % more', p_amount
              USING ERRCODE = 'GP001', DETAIL = p_tenant::text;
    END IF;
END $$;
