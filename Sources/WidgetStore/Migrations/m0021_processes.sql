-- Processes of all roles with their readiness, which each reports every few seconds, so that every console shows it.
CREATE TABLE process (
    id uuid PRIMARY KEY,
    role text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    obstacles text NOT NULL,
    failures text NOT NULL
) WITH (fillfactor = 50);

COMMENT ON COLUMN process.obstacles IS 'JSON array of {"name", "reason", "slow"}: what it is not ready for or finds slow';
COMMENT ON COLUMN process.failures IS 'JSON array of {"app", "provider", "message", "at"}: providers that failed last, or a while ago';
