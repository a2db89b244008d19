-- What is kept of a user of an app beside the widgets: PersonRecord of the model. Users without stacks, shortcuts and
-- donations have no row.
CREATE TABLE person (
    app_id int NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    habits bytea,
    arrangement text,
    suggested text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (app_id, user_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- In the row itself while it fits: a donation writes one row and nothing else.
ALTER TABLE person ALTER habits SET STORAGE main, ALTER arrangement SET STORAGE main;

COMMENT ON COLUMN person.habits IS 'when the person looks, as Habits stores it';
COMMENT ON COLUMN person.arrangement IS 'stacks and relevant shortcuts, as PersonRecord stores them';
COMMENT ON COLUMN person.suggested IS
    'suggestions that have begun in the last 24 hours: microseconds since 1970 and the device, latest first';

-- Schedules of the stacks that somebody reads. Made at the first read, and planned again when due.
CREATE TABLE stack_schedule (
    id uuid PRIMARY KEY,
    app_id int NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    stack text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz,
    read_at timestamptz NOT NULL DEFAULT now(),
    planned_at timestamptz,
    revision bigint NOT NULL DEFAULT 0,
    published boolean NOT NULL DEFAULT true,
    timelines bigint[] NOT NULL DEFAULT '{}',
    suggests boolean NOT NULL DEFAULT false,
    schedule text COMPRESSION lz4
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX stack_schedule_by_user ON stack_schedule (app_id, user_id);
-- By app: claims take turns between apps.
CREATE INDEX stack_schedule_claim ON stack_schedule (app_id, coalesce(leased_until, due_at));

COMMENT ON COLUMN stack_schedule.id IS 'first 128 bits of SHA-256 of app, user, device and stack; key of its messages';
COMMENT ON COLUMN stack_schedule.due_at IS
    'when it is planned again; a claim sets it to infinity, so that an earlier time is one of a change since';
COMMENT ON COLUMN stack_schedule.leased_until IS 'end of the lease of the process that plans and publishes it; null: none';
COMMENT ON COLUMN stack_schedule.revision IS 'token of the last change; 0: not planned yet';
COMMENT ON COLUMN stack_schedule.published IS 'whether Kafka has acknowledged this revision as the last one';
COMMENT ON COLUMN stack_schedule.timelines IS 'those that its widgets show, as in stack_timeline';
COMMENT ON COLUMN stack_schedule.suggests IS 'whether the schedule has suggestions';
COMMENT ON COLUMN stack_schedule.schedule IS 'JSON of the plan; null: not planned yet, or its tombstone goes out';

-- Schedules by the timelines of their widgets.
CREATE TABLE stack_timeline (
    timeline_id bigint NOT NULL,
    schedule_id uuid NOT NULL,
    PRIMARY KEY (timeline_id, schedule_id)
);

-- Relevance of the timelines that the owners of planned stacks have shown since.
CREATE TABLE relevance (
    timeline_id bigint PRIMARY KEY,
    revision bigint NOT NULL,
    history bytea NOT NULL,
    points bytea NOT NULL
) WITH (fillfactor = 80);

COMMENT ON COLUMN relevance.revision IS 'content revision of the timeline up to which its scores are counted';
COMMENT ON COLUMN relevance.history IS 'summary of the scores since the first plan, as RelevanceHistory stores it';
COMMENT ON COLUMN relevance.points IS 'scores in effect at the last change and later, as RelevanceCurve stores them';

-- Stored changes of timelines in relevance, until their relevance is recorded and their stacks are due.
CREATE TABLE relevance_change (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    timeline_id bigint NOT NULL,
    schedule_id uuid
) WITH (autovacuum_vacuum_scale_factor = 0.02);

COMMENT ON COLUMN relevance_change.schedule_id IS 'last schedule that was made due; null: none yet';
