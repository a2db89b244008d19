-- The latest actions of operators on each app, and those of the pauses in force.
CREATE TABLE operator_action (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id int NOT NULL REFERENCES app ON DELETE CASCADE,
    kind_id int REFERENCES kind ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT now(),
    action text NOT NULL,
    operator text NOT NULL,
    reason text,
    affected bigint
);

CREATE INDEX operator_action_by_app ON operator_action (app_id, at);

COMMENT ON COLUMN operator_action.kind_id IS 'NULL: all kinds';
COMMENT ON COLUMN operator_action.at IS 'of a pause: paused_at of its app or kind while it is in force';
COMMENT ON COLUMN operator_action.affected IS
    'timelines whose reloads were cancelled, or dead letters replayed or discarded; NULL for other actions';
