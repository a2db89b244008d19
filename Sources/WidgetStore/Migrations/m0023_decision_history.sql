-- The latest 50 decisions on a timeline, appended by the statements that store them.
ALTER TABLE timeline ADD COLUMN history bytea;

-- In the row, whose contents stay where they were before: 400 bytes more than the usual 2032.
ALTER TABLE timeline ALTER COLUMN history SET STORAGE MAIN;
ALTER TABLE timeline SET (toast_tuple_target = 2432);

COMMENT ON COLUMN timeline.history IS 'decision_record of each, latest first; NULL: none yet';

-- One decision as 8 bytes, from the highest bit: seconds since 1970 (32 bits), decision (4), rule (8), reason (4) and
-- milliseconds of the fetch (16; 65535: none). The model's DecisionRecord reads it.
CREATE FUNCTION decision_record(decided_at timestamptz, decision smallint, rule smallint, reason smallint, fetch_milliseconds int)
RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT int8send(
        (extract(epoch FROM decided_at)::int8 << 32) | ((decision::int8 & 15) << 28) | ((rule::int8 & 255) << 20)
            | ((reason::int8 & 15) << 16) | (least(coalesce(fetch_milliseconds, -1), 65534) & 65535))
$$;
