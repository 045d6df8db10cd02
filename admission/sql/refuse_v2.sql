-- Keep a refused request, its decision and its event, in one round trip.
-- p_heard maps the event's kind to the subscribers that get a delivery.
CREATE OR REPLACE FUNCTION admission_refuse(p_item jsonb, p_heard jsonb)
RETURNS void LANGUAGE sql AS $$
    WITH x AS MATERIALIZED (
        SELECT * FROM jsonb_to_record(p_item) AS b(
               tenant uuid, project uuid, request uuid, action text, sku uuid, class uuid,
               tier_id uuid, pool text, slots int, amount bigint, wait boolean, band int,
               spec jsonb, actor jsonb, decision uuid, gates jsonb, code text, detail text,
               envelope_version int, digest text, uid uuid, facts jsonb, correlation text,
               replicas int, workload uuid, subject uuid, seen jsonb, policy_version text)
    ), request AS (
        INSERT INTO admission_admissionrequest (
               id, tenant_id, project_id, action, sku_id, resource_class_id, tier_id, pool,
               slots, replicas, amount_milli, wait, band, spec, state, version, code, detail, actor,
               workload_id, subject_id)
        SELECT request, tenant, project, action, sku, class, tier_id, pool, slots, replicas,
               amount, wait, band, spec, 'denied', 1, code, detail, actor, workload, subject
          FROM x
    ), decision AS (
        INSERT INTO admission_decision (
               id, tenant_id, request_id, verdict, code, gates, why, envelope_version, digest,
               facts, policy_version)
        SELECT decision, tenant, request, 'deny', code, gates, '', envelope_version, digest,
               seen, policy_version
          FROM x
    ), happened AS (
        INSERT INTO kernel_event (
               uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
               facts, correlation)
        SELECT uid, tenant, 'admission.admissionrequest.deny', 'admission.admissionrequest',
               request, actor, '{"state": "received"}', '{"state": "denied"}', code, facts,
               correlation
          FROM x
        RETURNING id, kind, subject_id
    )
    INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
    SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
      FROM happened
      JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true
$$;
