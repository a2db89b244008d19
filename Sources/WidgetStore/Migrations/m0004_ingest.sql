-- How far each Kafka partition has been applied. It moves in the transaction that applies the events, compare-and-set
-- on the epoch that the owner took at assignment, so nothing is ever applied twice.
CREATE TABLE consumer_position (
    topic text NOT NULL,
    partition int NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

COMMENT ON COLUMN consumer_position.next_offset IS 'NULL: nothing applied yet, start at the earliest';

-- Fails the transaction when not every position could be moved: another process has taken a partition over.
CREATE FUNCTION require_positions(moved bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF moved <> expected THEN
        RAISE EXCEPTION 'consumer position moved: % of % partitions are still owned', moved, expected
            USING ERRCODE = 'FR001';
    END IF;
END $$;

-- Fails the transaction when a widget row appeared after this transaction had read that there was none.
CREATE FUNCTION require_widgets(written bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF written <> expected THEN
        RAISE EXCEPTION 'widget changed meanwhile: % of % rows written', written, expected
            USING ERRCODE = '40001';
    END IF;
END $$;

CREATE TABLE dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    partition int NOT NULL,
    "offset" bigint NOT NULL,
    app text,
    code text NOT NULL,
    error text NOT NULL,
    key bytea,
    header_names text[] NOT NULL,
    header_values bytea[] NOT NULL,
    payload bytea,
    received_at timestamptz NOT NULL DEFAULT now(),
    forwarded_at timestamptz
);

-- What the forwarder has still to publish.
CREATE INDEX dead_letter_to_forward ON dead_letter (id) WHERE forwarded_at IS NULL;
