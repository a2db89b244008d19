-- Devices that are told of changes, and lists of what is to be told. As with timelines, nothing that a push changes is
-- indexed; which devices are to be told when stands in `delivery`.
ALTER TABLE app ADD delivers boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN app.delivers IS 'whether it ever had a registered device, so that changes of its timelines are noted';

CREATE TABLE registration (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed bigint NOT NULL DEFAULT 0,
    sent bigint NOT NULL DEFAULT 0,
    listed_at timestamptz NOT NULL DEFAULT 'infinity',
    eligible_at timestamptz NOT NULL DEFAULT '-infinity',
    retry_at timestamptz NOT NULL DEFAULT '-infinity',
    registered_at timestamptz NOT NULL,
    changed_at timestamptz,
    tried_at timestamptz,
    sent_at timestamptz,
    fetched_at timestamptz,
    app_id int NOT NULL,
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
    fetched_revisions bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX registration_of_device ON registration (app_id, user_id, device_id);
CREATE INDEX registration_by_token ON registration (app_id, token_digest) WHERE token_digest IS NOT NULL;

COMMENT ON COLUMN registration.channel IS '0 none any more: the row keeps an older event from coming back; 1 apns, 2 webhook';
COMMENT ON COLUMN registration.changed IS 'changes so far; those up to `sent` have been told or fetched';
COMMENT ON COLUMN registration.listed_at IS 'due_at of the list that will tell the device; infinity: none will';
COMMENT ON COLUMN registration.eligible_at IS 'when spacing and budget allow the next push';
COMMENT ON COLUMN registration.changed_at IS 'time of the first change that has not been told';
COMMENT ON COLUMN registration.token IS 'sealed with the key named by token_key';
COMMENT ON COLUMN registration.token_digest IS 'SHA-256 of the token: a token is valid for the latest registration only';
COMMENT ON COLUMN registration.answer IS 'HTTP status of the last attempt; 0: the channel was not reached';
COMMENT ON COLUMN registration.fetched_timelines IS 'those that the API has served to the device, with fetched_revisions';

-- Timelines whose content has changed and whose devices are not marked yet. Shared ones, which very many widgets may show,
-- have rows of their own, which are walked in chunks.
CREATE TABLE delivery_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    shared bigint,
    cursor_app int NOT NULL DEFAULT 0,
    urgent boolean NOT NULL,
    cursor_widget text COLLATE "C" NOT NULL DEFAULT '',
    timelines bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

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

-- Webhooks that fail, or that were disabled for failing too long.
CREATE TABLE webhook (
    app_id int PRIMARY KEY,
    failing_since timestamptz,
    disabled_at timestamptz,
    error text
);

-- Delivery by kind and hour.
CREATE TABLE delivery_statistics (
    kind_id int NOT NULL,
    hour timestamptz NOT NULL,
    changes bigint NOT NULL DEFAULT 0,
    fetched bigint NOT NULL DEFAULT 0,
    late bigint NOT NULL DEFAULT 0,
    latencies bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (kind_id, hour)
) WITH (fillfactor = 50);

COMMENT ON COLUMN delivery_statistics.changes IS 'changes of content, counted for each widget on a registered device';
COMMENT ON COLUMN delivery_statistics.fetched IS 'first fetches of changed content by devices';
COMMENT ON COLUMN delivery_statistics.late IS 'those that were later than the objective';
COMMENT ON COLUMN delivery_statistics.latencies IS 'numbers of fetches by power of two of milliseconds since the change';

-- Walked in the order of widgets.
DROP INDEX widget_by_timeline;
CREATE INDEX widget_by_timeline ON widget (timeline_id, app_id, id) WHERE timeline_id IS NOT NULL;
