-- Order in which sweeps and changes of kinds run: fair between apps, and per kind in the order of their requests.
ALTER TABLE sweep ADD COLUMN queue smallint
    GENERATED ALWAYS AS (CASE WHEN generation IS NULL THEN CASE audience WHEN 0 THEN 1 ELSE 2 END ELSE 0 END) STORED;
ALTER TABLE sweep ADD COLUMN ran_at timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE kind_change ADD COLUMN ran_at timestamptz NOT NULL DEFAULT '-infinity';

COMMENT ON COLUMN sweep.queue IS 'queue of its kind: 0 everyone, by generation, 1 everyone with a match, 2 an audience';
COMMENT ON COLUMN sweep.ran_at IS 'time of its latest chunk';
COMMENT ON COLUMN kind_change.ran_at IS 'time of its latest chunk';

-- Finds the queues with waiting sweeps, and the first sweeps of each, without reading those behind them.
CREATE INDEX sweep_queue ON sweep (app_id, coalesce(kind_id, 0), queue, id);

-- Lists of reloads of everyone, which are no appointments.
CREATE INDEX work_of_everyone ON work (kind_id) WHERE generation IS NOT NULL;

-- Progress of the audit of appointments. Its lease makes one worker process at a time audit.
CREATE TABLE audit (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only),
    worker uuid,
    lease_ends_at timestamptz NOT NULL DEFAULT '-infinity',
    pass bigint NOT NULL DEFAULT 0,
    pass_begins_at timestamptz NOT NULL DEFAULT now(),
    cursor bigint NOT NULL DEFAULT 0,
    advanced_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

COMMENT ON COLUMN audit.pass_begins_at IS 'the next pass waits until then';
COMMENT ON COLUMN audit.cursor IS 'timelines up to this one are audited in this pass';
COMMENT ON COLUMN audit.advanced_at IS 'time of the latest chunk';

INSERT INTO audit DEFAULT VALUES;
