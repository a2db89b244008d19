-- Deleting what is old: one process at a time deletes the old rows of a sort.
CREATE TABLE retention (
    name text PRIMARY KEY,
    active_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

COMMENT ON TABLE retention IS 'sorts of rows that are deleted when they are old';
COMMENT ON COLUMN retention.active_at IS 'when a process last deleted a chunk; the next round begins an interval later';

-- Removed widgets, oldest first, for deleting them; and those of a user, for erasing the user.
CREATE INDEX widget_removed ON widget (changed_at) WHERE timeline_id IS NULL;
CREATE INDEX widget_removed_by_user ON widget (app_id, user_id, id) WHERE timeline_id IS NULL;

-- Outcomes and dead letters of an app or a user, for erasing a user.
CREATE INDEX event_outcome_of_user ON event_outcome (app_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX dead_letter_by_app ON dead_letter (app, id) WHERE app IS NOT NULL;

ALTER TABLE dead_letter ADD forwarding_until timestamptz;
COMMENT ON COLUMN dead_letter.forwarding_until IS 'end of the lease of the process that publishes it; NULL: none does';

ALTER TABLE topic_state ADD full_at timestamptz;
COMMENT ON COLUMN topic_state.full_at IS
    'since when its events of no registered app are dropped, because too many wait; NULL: they are kept';
