-- Begin to give back a batch of allocations in one round trip: the runs that made them, open tasks,
-- the task and the run that clean up, allocations, claims, events.
--
-- p_leaving holds one object an allocation, no allocation twice: i (its place in the answer),
-- allocation, outcome_active and outcome_else (by whether it was active), code, detail, reason (the
-- event's), actor, correlation, task, run and uids (ids for what is made; the first are used, and
-- where there are more events than uids the database makes the rest), and cancel: what the run that
-- still makes it is ended with, null to leave that run alone.
-- p_moves are the edges that are pulled here, from the tables of lifecycles: of allocation, claim,
-- task and run the states an edge leaves and the one it leads to, and the first states of what is
-- made. No state is decided here but by them.
-- An allocation that has begun already is answered with the run it has, and nothing of it changes;
-- one that does not exist is left out of the answer.
-- Locks: the runs that are cancelled, by id; nodes by number; open tasks, then their allocations,
-- as a host that takes its task does; claims. An allocation's state is decided under its lock, but
-- whether its run is cancelled by the state it was seen in, since that lock has to come first.
-- Every statement writes one table for the whole batch. Sequential scans are planned for no table
-- here: plans are kept, and a plan that was made while a table was empty would outlive that.
CREATE TYPE placement_leaving AS (
    i integer, allocation uuid, outcome_active text, outcome_else text, code text, detail text,
    reason text, actor jsonb, correlation text, task uuid, run uuid, uids uuid[], cancel jsonb,
    tenant uuid, node uuid, was text, attempt integer, whole boolean);

CREATE FUNCTION placement_release(
    p_leaving jsonb, p_moves jsonb, p_steps jsonb, p_heard jsonb, p_terms jsonb,
    p_at timestamptz)
RETURNS TABLE (i integer, run uuid, begun boolean, cancelled uuid)
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = 'off' AS $$
#variable_conflict use_column
DECLARE
    v_asked placement_leaving[]; v_items placement_leaving[]; v_ids uuid[]; v_begun uuid[];
    v_seen_open uuid[]; v_nodes uuid[]; v_making uuid[]; v_making_of uuid[];
    v_runs uuid[]; v_runs_of uuid[]; v_cancelled uuid[]; v_cancelled_of uuid[];
    v_tasks uuid[]; v_tasks_of uuid[]; v_tasks_was text[];
    v_claims uuid[]; v_claims_of uuid[]; v_claims_was text[]; v_claims_index int[];
    v_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{allocation,from}'));
    v_claim_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{claim,from}'));
    v_task_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{task,from}'));
    v_run_leaves text[] := ARRAY(SELECT jsonb_array_elements_text(p_moves #> '{run,from}'));
    v_to text := p_moves #>> '{allocation,to}'; v_claim_to text := p_moves #>> '{claim,to}';
    v_task_to text := p_moves #>> '{task,to}'; v_at timestamptz; v_n int;
BEGIN
    SELECT array_agg(x), array_agg(x.allocation) INTO v_asked, v_ids
      FROM jsonb_array_elements(p_leaving) e,
           jsonb_populate_record(NULL::placement_leaving, e) x;
    SELECT array_agg(a.id) FILTER (WHERE a.state = ANY (v_leaves)), array_agg(DISTINCT a.node_id),
           array_agg(a.run_id) FILTER (WHERE x.cancel IS NOT NULL AND p_moves -> 'making' ? a.state),
           array_agg(a.id) FILTER (WHERE x.cancel IS NOT NULL AND p_moves -> 'making' ? a.state)
      INTO v_seen_open, v_nodes, v_making, v_making_of
      FROM unnest(v_asked) x JOIN placement_allocation a ON a.id = x.allocation;

    IF v_making IS NOT NULL THEN
        SELECT array_agg(l.id), array_agg(m.allocation) INTO v_runs, v_runs_of
          FROM (SELECT r.id, r.state FROM kernel_workflowrun r
                 WHERE r.id = ANY (v_making) ORDER BY r.id FOR NO KEY UPDATE) l
          JOIN unnest(v_making, v_making_of) AS m(run, allocation) ON m.run = l.id
         WHERE l.state = ANY (v_run_leaves);
    END IF;
    PERFORM FROM placement_node n WHERE n.id = ANY (v_nodes) ORDER BY n.num FOR NO KEY UPDATE;
    SELECT array_agg(l.id), array_agg(l.allocation_id), array_agg(l.state)
      INTO v_tasks, v_tasks_of, v_tasks_was
      FROM (SELECT t.id, t.allocation_id, t.state::text FROM placement_nodetask t
             WHERE t.allocation_id = ANY (v_seen_open) AND t.state = ANY (v_task_leaves)
             ORDER BY t.id FOR NO KEY UPDATE) l;
    SELECT array_agg((x.i, x.allocation, x.outcome_active, x.outcome_else, x.code, x.detail,
                      x.reason, x.actor, x.correlation, x.task, coalesce(o.run, x.run), x.uids,
                      x.cancel, l.tenant_id, l.node_id, l.state, l.attempt, l.slots = 0
                     )::placement_leaving ORDER BY x.i),
           array_agg(l.id) FILTER (WHERE l.state = ANY (v_leaves))
      INTO v_items, v_begun
      FROM (SELECT a.id, a.tenant_id, a.node_id, a.state, a.attempt, a.slots, a.run_id
              FROM placement_allocation a
             WHERE a.id = ANY (v_ids) ORDER BY a.id FOR NO KEY UPDATE) l
      JOIN unnest(v_asked) x ON x.allocation = l.id
      LEFT JOIN LATERAL (SELECT l.run_id AS run WHERE l.state <> ALL (v_leaves)) o ON true;
    v_at := coalesce(p_at, clock_timestamp());

    IF v_runs IS NOT NULL THEN
        WITH stopped AS (
            UPDATE kernel_workflowrun r
               SET state = p_moves #>> '{run,to}',
                   error = x.cancel || jsonb_build_object('step', r.step),
                   attempt = 0, due_at = v_at, updated_at = v_at
              FROM unnest(v_runs, v_runs_of) AS m(id, allocation)
              JOIN unnest(v_items) x ON x.allocation = m.allocation
             WHERE r.id = m.id
            RETURNING r.id, x.allocation)
        SELECT array_agg(s.id), array_agg(s.allocation) INTO v_cancelled, v_cancelled_of
          FROM stopped s;
        PERFORM pg_notify(p_terms ->> 'channel', concat(p_terms ->> 'topic', u.id))
           FROM unnest(v_cancelled) AS u(id);
    END IF;
    IF v_begun IS NOT NULL THEN
        UPDATE placement_nodetask t
           SET state = v_task_to, state_since = v_at, version = t.version + 1,
               lease_epoch = t.lease_epoch + 1, ended_at = v_at
         WHERE t.id = ANY (v_tasks) AND t.allocation_id = ANY (v_begun);
        INSERT INTO placement_nodetask (
               id, node_id, kind, allocation_id, state, version, params, claim_attempt, attempt,
               max_attempts, lease_epoch, boot_id, deadline_at, step, run_id)
        SELECT x.task, x.node, CASE WHEN x.whole THEN 'baremetal.release' ELSE 'slice.vm_release' END,
               x.allocation, p_moves #>> '{task,first}', 1,
               jsonb_build_object('allocation_id', x.allocation, 'attempt', x.attempt)
               || CASE WHEN x.whole THEN jsonb_build_object('devices', given.params -> 'devices')
                       ELSE jsonb_build_object('slots', (
                           SELECT coalesce(jsonb_agg(s.one ORDER BY s.n), '[]')
                             FROM jsonb_array_elements(given.params -> 'slots')
                                  WITH ORDINALITY AS s(one, n)
                            WHERE (s.one ->> 'slot_index')::int = ANY (held.indices))) END,
               x.attempt, 0, 5, 0, '', v_at + make_interval(secs => (p_terms ->> 'task_s')::int),
               '', x.run
          FROM unnest(v_items) x
         CROSS JOIN LATERAL (
               SELECT t.params FROM placement_nodetask t
                WHERE t.allocation_id = x.allocation AND t.kind LIKE '%provision'
                ORDER BY t.created_at LIMIT 1) given
         -- A slot whose claim was overridden may be another tenant's by now.
         CROSS JOIN LATERAL (
               SELECT array_agg(c.slot_index::int) AS indices FROM placement_claim c
                WHERE c.allocation_id = x.allocation AND p_moves -> 'live' ? c.state) held
         WHERE x.was = ANY (v_leaves);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        IF v_n <> cardinality(v_begun) THEN
            RAISE EXCEPTION '% of % allocations were never given to a host',
                  cardinality(v_begun) - v_n, cardinality(v_begun);
        END IF;
        INSERT INTO kernel_workflowrun (
               id, kind, tenant_id, subject_kind, subject_id, state, step, attempt, steps, input,
               actor, correlation, due_at, deadline_at, lease_epoch, updated_at)
        SELECT x.run, 'allocation.release', x.tenant, 'placement.allocation', x.allocation,
               p_moves #>> '{run,first}', '', 0, p_steps,
               jsonb_build_object('task', x.task, 'attempt', x.attempt), x.actor, x.correlation,
               v_at, v_at + make_interval(secs => (p_terms ->> 'run_s')::int), 0, v_at
          FROM unnest(v_items) x WHERE x.was = ANY (v_leaves);
        UPDATE placement_allocation a
           SET state = v_to, state_since = v_at, version = a.version + 1, run_id = x.run,
               outcome = CASE WHEN x.was = p_terms ->> 'handed_over' THEN x.outcome_active
                              ELSE x.outcome_else END,
               outcome_code = x.code, outcome_detail = x.detail, release_asked_at = v_at
          FROM unnest(v_items) x WHERE a.id = x.allocation AND x.was = ANY (v_leaves);
        WITH moved AS (
            UPDATE placement_claim c
               SET state = v_claim_to, state_since = v_at, version = c.version + 1
              FROM (SELECT h.id, h.state::text AS was FROM placement_claim h
                     WHERE h.allocation_id = ANY (v_begun) AND h.state = ANY (v_claim_leaves)
                     ORDER BY h.node_num, h.slot_index FOR NO KEY UPDATE) l
             WHERE c.id = l.id
            RETURNING c.id, c.allocation_id, l.was, c.slot_index::int)
        SELECT array_agg(m.id), array_agg(m.allocation_id), array_agg(m.was),
               array_agg(m.slot_index)
          INTO v_claims, v_claims_of, v_claims_was, v_claims_index FROM moved m;
        WITH happened AS (
            INSERT INTO kernel_event (
                   uid, tenant_id, kind, subject_kind, subject_id, actor, before, after, reason,
                   facts, correlation)
            SELECT coalesce(e.uids[e.n], gen_random_uuid()),
                   CASE WHEN e.turn > 1 THEN e.tenant END, e.kind, e.noun, e.subject,
                   e.actor, jsonb_build_object('state', e.was), jsonb_build_object('state', e.became),
                   e.reason, '{}', e.correlation
              FROM (SELECT x.i, x.tenant, x.uids, x.actor, x.correlation, s.*,
                           row_number() OVER (PARTITION BY x.i ORDER BY s.turn, s.place) AS n
                      FROM (SELECT 1 AS turn, u.n::int AS place, u.allocation, u.id AS subject,
                                   'placement.nodetask.cancel' AS kind,
                                   'placement.nodetask' AS noun, u.was, v_task_to AS became,
                                   '' AS reason
                              FROM unnest(v_tasks, v_tasks_of, v_tasks_was) WITH ORDINALITY
                                   AS u(id, allocation, was, n)
                             UNION ALL
                            SELECT 2, 0, y.allocation, y.allocation,
                                   'placement.allocation.release', 'placement.allocation', y.was,
                                   v_to, y.reason
                              FROM unnest(v_items) y
                             UNION ALL
                            SELECT 3, u.index, u.allocation, u.id,
                                   'placement.claim.release', 'placement.claim', u.was, v_claim_to,
                                   ''
                              FROM unnest(v_claims, v_claims_of, v_claims_was, v_claims_index)
                                   AS u(id, allocation, was, index)) s
                      JOIN unnest(v_items) x ON x.allocation = s.allocation
                     WHERE x.was = ANY (v_leaves)) e
             ORDER BY e.i, e.n
            RETURNING id, kind, subject_id)
        INSERT INTO kernel_delivery (event_id, subject_id, subscriber, state, attempts, last_error)
        SELECT happened.id, happened.subject_id, heard.name, 'pending', 0, ''
          FROM happened
          JOIN LATERAL jsonb_array_elements_text(p_heard -> happened.kind) AS heard(name) ON true;
    END IF;
    RETURN QUERY
        SELECT x.i, x.run, x.was = ANY (v_leaves), c.id
          FROM unnest(v_items) x
          LEFT JOIN unnest(v_cancelled, v_cancelled_of) AS c(id, allocation)
            ON c.allocation = x.allocation;
END $$;
