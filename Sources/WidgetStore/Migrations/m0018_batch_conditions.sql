-- Fails the transaction of a batch: with FR001 if positions are no longer this process's, with FR003 while one of its topics
-- is halted, and with FR002 if other apps are diverted than the process believes; these diversions are held. The statement
-- that calls it has locked the positions, and it reads what was committed while that statement waited for them.
CREATE FUNCTION require_batch(moved bigint, expected bigint, topics text[], apps int[], diverted int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_positions(moved, expected);
    IF apps IS NOT NULL AND (diverted <> '{}'
        OR EXISTS (SELECT FROM topic_state s WHERE s.halted_at IS NOT NULL AND s.topic = ANY (topics))
        OR EXISTS (SELECT FROM diversion d WHERE d.app_id = ANY (apps))) THEN
        PERFORM require_flow(topics, apps, diverted);
    END IF;
END $$;

COMMENT ON FUNCTION require_batch IS 'apps: those of the events that the transaction applies; NULL: it only moves positions';
