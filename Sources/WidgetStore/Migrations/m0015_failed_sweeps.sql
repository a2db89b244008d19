-- A sweep whose chunks fail goes behind the others, and does not go on.
ALTER TABLE sweep ADD COLUMN failed_at timestamptz NOT NULL DEFAULT '-infinity';

COMMENT ON COLUMN sweep.ran_at IS 'time of its latest chunk that did not fail';
COMMENT ON COLUMN sweep.failed_at IS 'time of its latest chunk that failed';
