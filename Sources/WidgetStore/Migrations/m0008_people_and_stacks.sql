-- What is kept of a user of an app beside the widgets: PersonRecord of the model. Users without stacks, shortcuts and
-- donations have no row.
CREATE TABLE person (
    app_id int NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    habits bytea,
    arrangement text,
    PRIMARY KEY (app_id, user_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- In the row itself while it fits: a donation writes one row and nothing else.
ALTER TABLE person ALTER habits SET STORAGE main, ALTER arrangement SET STORAGE main;

COMMENT ON COLUMN person.habits IS 'when the person looks, as Habits stores it';
COMMENT ON COLUMN person.arrangement IS 'stacks and relevant shortcuts, as PersonRecord stores them';

-- Schedules of the stacks that somebody reads. Made at the first read, and planned again when due.
CREATE TABLE stack_schedule (
    id uuid PRIMARY KEY,
    app_id int NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    stack text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    read_at timestamptz NOT NULL DEFAULT now(),
    planned_at timestamptz,
    revision bigint NOT NULL DEFAULT 0,
    published boolean NOT NULL DEFAULT true,
    timelines bigint[] NOT NULL DEFAULT '{}',
    schedule text COMPRESSION lz4
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX stack_schedule_by_user ON stack_schedule (app_id, user_id);
CREATE INDEX stack_schedule_due ON stack_schedule (due_at);
CREATE INDEX stack_schedule_by_timeline ON stack_schedule USING gin (timelines);

COMMENT ON COLUMN stack_schedule.id IS 'first 128 bits of SHA-256 of app, user, device and stack; key of its messages';
COMMENT ON COLUMN stack_schedule.due_at IS 'when it is planned again; while a process plans or publishes, end of its lease';
COMMENT ON COLUMN stack_schedule.revision IS 'token of the last change; 0: not planned yet';
COMMENT ON COLUMN stack_schedule.published IS 'whether Kafka has acknowledged this revision';
COMMENT ON COLUMN stack_schedule.timelines IS 'those that its widgets show';

-- Relevance of the timelines in stack_schedule.
CREATE TABLE relevance (
    timeline_id bigint PRIMARY KEY,
    revision bigint NOT NULL,
    history bytea NOT NULL,
    points bytea NOT NULL
) WITH (fillfactor = 80);

COMMENT ON COLUMN relevance.revision IS 'content revision of the timeline up to which its scores are counted';
COMMENT ON COLUMN relevance.history IS 'all scores ever provided, as RelevanceHistory stores them';
COMMENT ON COLUMN relevance.points IS 'those that are in effect or will be, as RelevanceCurve stores them';

-- Timelines of that table whose content has changed. Deleted when their stacks have been made due.
CREATE TABLE relevance_change (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    timeline_id bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
