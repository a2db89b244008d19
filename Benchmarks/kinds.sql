-- Cost of many kinds: of reading their definitions, as each process does when its copy is older than 5 s, and of a look for ready
-- lists, as each worker process makes it every second, and again after each claim. Copies the kinds of a migrated database, such
-- as those of deploy/samples/kinds.yaml, and takes the copies back:
--
--   psql "$FRESHET_POSTGRES_URL" --set kinds=20000 --file Benchmarks/kinds.sql
\set ON_ERROR_STOP on
\if :{?kinds} \else
\set kinds 20000
\endif
BEGIN;
INSERT INTO app (name, signing_secret) SELECT 'copy' || n, '' FROM generate_series(0, (:kinds - 1) / 100) n;
WITH present AS MATERIALIZED (
    SELECT definition, row_number() OVER (ORDER BY kind_id) - 1 AS place, count(*) OVER () AS number FROM kind_definition
), copied AS (
    INSERT INTO kind (app_id, name)
    SELECT a.id, 'copy' || n FROM generate_series(0, :kinds - 1) n JOIN app a ON a.name = 'copy' || n / 100
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

-- The statement of `Statements.readyLists`: a probe for each kind and lane. No list is ready.
PREPARE look AS
WITH q AS MATERIALIZED (
    SELECT k.id AS kind_id, lane::int2 AS lane, '-infinity'::timestamptz AS since
    FROM kind k CROSS JOIN generate_series(0, 3) lane
)
SELECT q.kind_id, q.lane, r.sizes
FROM q
CROSS JOIN LATERAL (
    SELECT array_agg(cardinality(w.timelines) ORDER BY w.ready_at) AS sizes FROM (
        SELECT w.timelines, w.ready_at FROM work w
        WHERE w.kind_id = q.kind_id AND w.lane = q.lane AND w.ready_at <= now() AND w.ready_at >= q.since
        ORDER BY w.ready_at LIMIT 64) w
) r
WHERE r.sizes IS NOT NULL;

\timing on
EXECUTE look;
EXECUTE look;
EXECUTE look;
\o /dev/null
EXECUTE kinds;
EXECUTE kinds;
EXECUTE kinds;
\o
EXPLAIN (ANALYZE, BUFFERS, COSTS off) EXECUTE kinds;
\timing off
ROLLBACK;
