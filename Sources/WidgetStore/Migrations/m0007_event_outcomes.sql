-- Widgets that were removed before they were placed, in the order in which their tombstones were written: rows of widget
-- without a device. Kept for a day.
CREATE TABLE unplaced_widget (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id int NOT NULL,
    id text COLLATE "C" NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now()
);

-- What became of events: of those whose publishers want to know it, such as the HTTP API's, and of lifecycle events without
-- effect. Kept for an hour.
CREATE TABLE event_outcome (
    app_id int NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type text NOT NULL,
    topic text NOT NULL,
    partition int NOT NULL,
    "offset" bigint NOT NULL,
    user_id text COLLATE "C",
    widget text COLLATE "C",
    event_time timestamptz,
    result text NOT NULL,
    code text,
    detail text,
    pointer text,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (app_id, event_id, source, user_id)
);

COMMENT ON COLUMN event_outcome.user_id IS 'the user whose token published it; NULL: an app''s';
COMMENT ON COLUMN event_outcome.result IS 'applied, outdated, ignored, deadLetter or diverted';

-- What had no effect on a widget, for explanations.
CREATE INDEX event_outcome_ignored ON event_outcome (app_id, widget, seq) WHERE result IN ('outdated', 'ignored');

-- Requests to the HTTP API by their Idempotency-Key, so that a key is not used for another one. Kept for an hour.
CREATE TABLE idempotency_key (
    app_id int NOT NULL,
    key uuid NOT NULL,
    request uuid NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, key)
);

COMMENT ON COLUMN idempotency_key.key IS 'hash of the key and of the user whose token it came with';
COMMENT ON COLUMN idempotency_key.request IS 'hash of the events that the request published';

-- For deleting what is old.
CREATE UNIQUE INDEX idempotency_key_age ON idempotency_key (seq);
