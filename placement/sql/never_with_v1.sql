-- The tenants that are never placed on one host with this one, in order; null where there are none.
CREATE FUNCTION placement_never_with(p_tenant uuid) RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(DISTINCT other.id::uuid ORDER BY other.id::uuid)
          FROM placement_separation s
         CROSS JOIN LATERAL jsonb_array_elements_text(s.tenants) AS other(id)
         WHERE s.tenants ? p_tenant::text AND other.id <> p_tenant::text);
END $$;
