-- How far each Kafka partition has been applied. It moves in the transaction that applies the events, compare-and-set
-- on the epoch that the owner took with the partition, so nothing is ever applied twice.
CREATE TABLE consumer_position (
    topic text NOT NULL,
    partition int NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

COMMENT ON COLUMN consumer_position.next_offset IS 'NULL: nothing applied yet, start at the earliest';

-- Ingest processes. Each reads its share of the partitions while it is seen.
CREATE TABLE ingest_member (
    id uuid PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- The Kafka cluster whose positions these are: one row, once a process has started.
CREATE TABLE kafka_cluster (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only),
    id text NOT NULL
);

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

-- Trace contexts of events that carried one (header traceparent, sampled), for the reloads that they cause: found again by
-- the position that the hot row keeps of the latest request. Apart from the hot row, so that requests without a trace cost
-- it nothing. Kept for an hour.
CREATE TABLE event_trace (
    topic smallint NOT NULL,
    partition int NOT NULL,
    "offset" bigint NOT NULL,
    traceparent text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition, "offset")
);

-- For deleting what is old.
CREATE INDEX event_trace_age ON event_trace (received_at);
