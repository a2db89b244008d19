-- Providers that a worker process leaves alone. Written when a breaker opens, waits longer or closes, never by a request.
CREATE TABLE open_breaker (
    app_id int NOT NULL REFERENCES app ON DELETE CASCADE,
    worker uuid NOT NULL REFERENCES worker ON DELETE CASCADE,
    provider text NOT NULL COLLATE "C",
    opened_at timestamptz NOT NULL DEFAULT now(),
    probe_at timestamptz NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (app_id, provider, worker)
) WITH (autovacuum_vacuum_cost_delay = 0);

-- For the end of a worker.
CREATE INDEX open_breaker_by_worker ON open_breaker (worker);

COMMENT ON COLUMN open_breaker.probe_at IS 'when a request may probe the provider';
COMMENT ON COLUMN open_breaker.message IS 'reason and message of the latest failed request';
