-- A statement may know less of its timelines' kind than a look that ended while it waited for their rows.
ALTER TABLE timeline ADD COLUMN looked_generation bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN timeline.looked_generation IS
    'generation of the kind at the last look through a list of a reload of everyone that stored nothing';
