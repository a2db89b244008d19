-- Devices that are notified of changes, and lists of devices to notify. As with timelines, nothing that a push or a fetch
-- changes is indexed; `delivery` is the index of the devices that are due.
ALTER TABLE app ADD delivers boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN app.delivers IS 'whether it ever had a registered device, so that changes of its timelines are noted';

CREATE TABLE registration (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed bigint NOT NULL DEFAULT 0,
    sent bigint NOT NULL DEFAULT 0,
    urgent bigint NOT NULL DEFAULT 0,
    listed_at timestamptz NOT NULL DEFAULT 'infinity',
    eligible_at timestamptz NOT NULL DEFAULT '-infinity',
    retry_at timestamptz NOT NULL DEFAULT '-infinity',
    registered_at timestamptz NOT NULL,
    changed_at timestamptz,
    tried_at timestamptz,
    sent_at timestamptz,
    first_sent_at timestamptz,
    fetched_at timestamptz,
    recorded_at timestamptz,
    app_id int NOT NULL,
    pushes int NOT NULL DEFAULT 0,
    answered_pushes int NOT NULL DEFAULT 0,
    replays boolean NOT NULL DEFAULT false,
    answer smallint,
    attempts smallint NOT NULL DEFAULT 0,
    channel smallint NOT NULL,
    environment smallint,
    user_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    topic text,
    token_key text,
    token bytea,
    token_digest bytea,
    reason text,
    budget bytea,
    fetched_timelines bigint[] NOT NULL DEFAULT '{}',
    fetched_revisions bigint[] NOT NULL DEFAULT '{}',
    stale_timelines bigint[] NOT NULL DEFAULT '{}',
    stale_revisions bigint[] NOT NULL DEFAULT '{}',
    stale_since timestamptz[] NOT NULL DEFAULT '{}',
    push_latencies int[] NOT NULL DEFAULT '{}',
    push_kinds int[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX registration_of_device ON registration (app_id, user_id, device_id);
CREATE INDEX registration_gone ON registration (registered_at) WHERE channel = 0;
CREATE INDEX registration_by_token ON registration (app_id, token_digest) WHERE token_digest IS NOT NULL;

COMMENT ON COLUMN registration.channel IS '0 none: the row keeps an older event from coming back; 1 apns, 2 webhook';
COMMENT ON COLUMN registration.changed IS 'number of changes so far; those up to `sent` have been sent or fetched';
COMMENT ON COLUMN registration.urgent IS 'number of the last change that a person waits for';
COMMENT ON COLUMN registration.listed_at IS 'due_at of the list that will notify the device; infinity: none will';
COMMENT ON COLUMN registration.eligible_at IS 'when spacing and budget allow the next push';
COMMENT ON COLUMN registration.changed_at IS 'time of the first change that has not been sent';
COMMENT ON COLUMN registration.token IS 'sealed with the key named by token_key';
COMMENT ON COLUMN registration.token_digest IS 'SHA-256 of the token: a token is valid for the latest registration only';
COMMENT ON COLUMN registration.answer IS 'HTTP status of the last attempt; 0: the channel was not reached';
COMMENT ON COLUMN registration.first_sent_at IS 'time of the first push that the last write of fetches does not cover';
COMMENT ON COLUMN registration.recorded_at IS 'time of the last write of fetches';
COMMENT ON COLUMN registration.answered_pushes IS 'number of accepted pushes that a fetch followed before the next push';
COMMENT ON COLUMN registration.push_latencies IS
    'milliseconds from a push to the fetch of a changed timeline, of the last ones, the latest first; with push_kinds';
COMMENT ON COLUMN registration.replays IS 'whether a webhook is to name all widgets, not only those that have changed';
COMMENT ON COLUMN registration.fetched_timelines IS 'those that the API has served to the device, with fetched_revisions';
COMMENT ON COLUMN registration.stale_timelines IS
    'those that have changed since the device fetched them, with the first change in stale_revisions and stale_since';

-- Timelines whose content has changed and whose devices are not marked yet. A shared timeline, which very many widgets may
-- show, has a row of its own, one at most, which is walked in chunks, in turns with the others. A change during the walk
-- moves its end to where it is: it goes round.
CREATE TABLE delivery_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    since timestamptz NOT NULL DEFAULT now(),
    shared bigint,
    app_id int NOT NULL,
    cursor_app int NOT NULL DEFAULT 0,
    end_app int NOT NULL DEFAULT 0,
    urgent boolean NOT NULL,
    is_second_round boolean NOT NULL DEFAULT false,
    cursor_widget text COLLATE "C" NOT NULL DEFAULT '',
    end_widget text COLLATE "C" NOT NULL DEFAULT '',
    timelines bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX delivery_change_owned ON delivery_change (id) WHERE shared IS NULL;
CREATE INDEX delivery_change_shared ON delivery_change (id) WHERE shared IS NOT NULL;
CREATE UNIQUE INDEX delivery_change_of_shared ON delivery_change (shared) WHERE shared IS NOT NULL;

COMMENT ON COLUMN delivery_change.changed_at IS 'time of the last change';
COMMENT ON COLUMN delivery_change.since IS 'time of the first change that the widgets ahead were not marked for';
COMMENT ON COLUMN delivery_change.end_widget IS 'where a second round ends, with end_app; the first widget: there is none';
COMMENT ON COLUMN delivery_change.shared IS 'the only timeline, if it is a shared one';
COMMENT ON COLUMN delivery_change.urgent IS 'whether a person waits for the change';

-- Lists of devices, as `work` has lists of timelines.
CREATE TABLE delivery (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    lease bigint,
    app_id int NOT NULL,
    registrations bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE delivery ALTER registrations SET STORAGE main;
CREATE INDEX delivery_ready ON delivery (ready_at);
CREATE INDEX delivery_of_app ON delivery (app_id, ready_at);

-- Webhooks that fail, or that were disabled for failing too long.
CREATE TABLE webhook (
    app_id int PRIMARY KEY,
    failing_since timestamptz NOT NULL,
    failed_at timestamptz NOT NULL,
    disabled_at timestamptz,
    error text
);

-- Delivery by kind and five minutes, all by the time of the change, so that what was missed is counted once. Changes of a
-- timeline that follow before the device has fetched it belong to the first one.
CREATE TABLE delivery_statistics (
    kind_id int NOT NULL,
    bucket timestamptz NOT NULL,
    changes bigint NOT NULL DEFAULT 0,
    fetched bigint NOT NULL DEFAULT 0,
    late bigint NOT NULL DEFAULT 0,
    latencies bigint[] NOT NULL DEFAULT '{}',
    push_latencies bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (kind_id, bucket)
) WITH (fillfactor = 50);

CREATE INDEX delivery_statistics_by_time ON delivery_statistics (bucket);
COMMENT ON COLUMN delivery_statistics.changes IS 'timelines that became stale on a registered device';
COMMENT ON COLUMN delivery_statistics.fetched IS 'those that the device has fetched since';
COMMENT ON COLUMN delivery_statistics.late IS 'fetches that were later than the objective';
COMMENT ON COLUMN delivery_statistics.latencies IS 'numbers of fetches by power of two of milliseconds since the change';
COMMENT ON COLUMN delivery_statistics.push_latencies IS 'numbers of fetches by power of two of milliseconds since the push';

-- Walked in the order of widgets.
DROP INDEX widget_by_timeline;
CREATE INDEX widget_by_timeline ON widget (timeline_id, app_id, id) WHERE timeline_id IS NOT NULL;
