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
