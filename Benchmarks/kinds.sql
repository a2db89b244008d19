-- Cost of reading the definitions of 20,000 kinds, as each process does when its copy is older than 5 s. Copies the kinds of a
-- migrated database, such as those of deploy/samples/kinds.yaml, and takes the copies back:
--
--   psql "$FRESHET_POSTGRES_URL" --file Benchmarks/kinds.sql
\set ON_ERROR_STOP on
BEGIN;
INSERT INTO app (name, signing_secret) SELECT 'copy' || n, '' FROM generate_series(0, 199) n;
WITH present AS MATERIALIZED (
    SELECT definition, row_number() OVER (ORDER BY kind_id) - 1 AS place, count(*) OVER () AS number FROM kind_definition
), copied AS (
    INSERT INTO kind (app_id, name)
    SELECT a.id, 'copy' || n FROM generate_series(0, 19999) n JOIN app a ON a.name = 'copy' || n / 100
    RETURNING id
)
INSERT INTO kind_definition (kind_id, definition)
SELECT c.id, p.definition FROM copied c JOIN present p ON p.place = c.id % p.number;
ANALYZE app, kind, kind_definition;

SELECT count(*) AS kinds, pg_size_pretty(sum(octet_length(definition::text))) AS definitions FROM kind_definition;

-- The statement of `Statements.listKinds`.
PREPARE kinds AS
SELECT k.id, k.app_id, a.name AS app, k.name, a.developer_mode, d.definition::text AS definition,
       k.retired_at IS NOT NULL AS retired, k.paused_at, a.paused_at AS app_paused_at
FROM kind k JOIN app a ON a.id = k.app_id JOIN kind_definition d ON d.kind_id = k.id
ORDER BY a.name, k.name;

\timing on
\o /dev/null
EXECUTE kinds;
EXECUTE kinds;
EXECUTE kinds;
\o
EXPLAIN (ANALYZE, BUFFERS, COSTS off) EXECUTE kinds;
\timing off
ROLLBACK;
