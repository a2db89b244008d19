-- Messages that could not be applied, whole, with the cause and their fate.
CREATE TABLE dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    partition int NOT NULL,
    "offset" bigint NOT NULL,
    message_time bigint NOT NULL DEFAULT -1,
    app text,
    cause text NOT NULL DEFAULT 'invalid',
    code text NOT NULL,
    error text NOT NULL,
    pointer text,
    key bytea,
    header_names text[] NOT NULL,
    header_values bytea[] NOT NULL,
    payload bytea,
    received_at timestamptz NOT NULL DEFAULT now(),
    forwarded_at timestamptz,
    forward_failures int NOT NULL DEFAULT 0,
    forward_error text,
    unforwardable_at timestamptz,
    replays int NOT NULL DEFAULT 0,
    last_replay_at timestamptz,
    replayed_at timestamptz,
    discarded_at timestamptz
);

COMMENT ON COLUMN dead_letter.message_time IS 'the Kafka message''s timestamp, milliseconds since 1970; -1: none';
COMMENT ON COLUMN dead_letter.cause IS 'malformed, invalid, unknownApp, unknownKind, refused, or diverted: nothing is wrong with it, it waits';

-- A message is one dead letter, however often its partition is set back. Its time tells it from a message at the same
-- place of a topic that was made anew.
CREATE UNIQUE INDEX dead_letter_message ON dead_letter (topic, partition, "offset", message_time);

-- What waits: of an app, oldest first, and of a cause.
CREATE INDEX dead_letter_of_app ON dead_letter (app, id) WHERE replayed_at IS NULL AND discarded_at IS NULL;
CREATE INDEX dead_letter_of_cause ON dead_letter (cause, app, id) WHERE replayed_at IS NULL AND discarded_at IS NULL;

-- What the forwarder has still to publish. What was only diverted is no dead letter for others.
CREATE INDEX dead_letter_to_forward ON dead_letter (id)
    WHERE forwarded_at IS NULL AND unforwardable_at IS NULL AND cause <> 'diverted';

-- What may be deleted one day.
CREATE INDEX dead_letter_done ON dead_letter ((coalesce(replayed_at, discarded_at, forwarded_at)))
    WHERE coalesce(replayed_at, discarded_at, forwarded_at) IS NOT NULL;

-- Events that failed within the current window, by registered app, or by topic (app_id 0) if no app can be charged.
CREATE TABLE dead_letter_window (
    app_id int NOT NULL,
    topic text NOT NULL,
    began_at timestamptz NOT NULL,
    letters bigint NOT NULL,
    events bigint NOT NULL,
    PRIMARY KEY (app_id, topic)
) WITH (fillfactor = 50);

COMMENT ON COLUMN dead_letter_window.topic IS 'empty for an app';

-- Apps whose events all wait as dead letters, until their backlog has been replayed.
CREATE TABLE diversion (
    app_id int PRIMARY KEY REFERENCES app (id),
    diverted_at timestamptz NOT NULL DEFAULT now(),
    letters bigint NOT NULL,
    events bigint NOT NULL,
    topic text,
    full_at timestamptz
);

COMMENT ON COLUMN diversion.topic IS 'where its events failed; NULL: it was over its quota';
COMMENT ON COLUMN diversion.full_at IS 'since when its further events are dropped; NULL: they are kept';

-- Topics that are halted, or have been.
CREATE TABLE topic_state (
    topic text PRIMARY KEY,
    halted_at timestamptz,
    cause text,
    apps text[] NOT NULL DEFAULT '{}',
    detail text,
    resumed_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- Fails the transaction while one of the topics is halted, and when other of these apps are diverted than its process believes. The
-- diversions are locked until it ends: none of them ends between, so that no later event overtakes what this one diverts.
CREATE FUNCTION require_flow(topics text[], apps int[], expected int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE found int[];
BEGIN
    IF EXISTS (SELECT 1 FROM topic_state s WHERE s.halted_at IS NOT NULL AND s.topic = ANY (topics)) THEN
        RAISE EXCEPTION 'a topic is halted' USING ERRCODE = 'FR003';
    END IF;
    SELECT coalesce(array_agg(l.app_id ORDER BY l.app_id), '{}') INTO found
    FROM (SELECT d.app_id FROM diversion d WHERE d.app_id = ANY (apps) ORDER BY d.app_id FOR SHARE) l;
    IF found <> expected THEN
        RAISE EXCEPTION 'other apps are diverted than was believed' USING ERRCODE = 'FR002';
    END IF;
END $$;
