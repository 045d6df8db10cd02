-- Whether anything waits for a host that asks: a task that is due, a lease that may have ended, or
-- a burn-in that was stopped. Volatile, so that it reads what is there when it is called: the
-- statement that calls it may have waited for the host's row since it began, and whoever had that
-- row may have left the task that is asked for.
CREATE FUNCTION placement_work_waits(p_node uuid, p_now timestamptz)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_at timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN EXISTS (
           SELECT FROM placement_nodetask t
            WHERE t.node_id = p_node AND t.state IN ('pending', 'leased')
              AND (t.due_at <= v_at AND t.state = 'pending'
                   OR t.lease_until < v_at AND t.state = 'leased'))
        OR EXISTS (
           SELECT FROM placement_nodetask t
            WHERE t.node_id = p_node AND t.state = 'cancelled' AND t.ended_at IS NULL);
END $$;
