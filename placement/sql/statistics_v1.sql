-- Count the tables anew whose rows a look reads in the order of an index, where the planner takes
-- them for nearly empty: it would read and sort all of their rows for each look instead. It does so
-- from the moment a vacuum has met many rows that were not committed yet, until somebody counts
-- them. Only their owner may. No more rows are counted here than four times as many as are believed
-- in. Gives the names of the tables that were counted anew.
CREATE FUNCTION placement_statistics_mend()
RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_table text;
    v_believed bigint;
    v_most bigint;
    v_there bigint;
    v_done text[] := '{}';
BEGIN
    FOREACH v_table IN ARRAY ARRAY['placement_node', 'placement_cutslot'] LOOP
        SELECT c.reltuples::bigint INTO v_believed FROM pg_class c WHERE c.oid = v_table::regclass;
        -- Never counted: then the planner goes by the table's size, which is right enough.
        CONTINUE WHEN v_believed < 0;
        v_most := 4 * v_believed + 100;
        EXECUTE format('SELECT count(*) FROM (SELECT FROM %I LIMIT %s) AS there', v_table, v_most)
           INTO v_there;
        IF v_there = v_most THEN
            EXECUTE format('ANALYZE (SKIP_LOCKED) %I', v_table);
            v_done := v_done || v_table;
        END IF;
    END LOOP;
    RETURN v_done;
END $$;
REVOKE EXECUTE ON FUNCTION placement_statistics_mend() FROM PUBLIC;
