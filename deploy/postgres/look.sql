-- Finds the causes of a slow database. Read-only, for freshet_reader:
--
--   psql --no-psqlrc --expanded --file deploy/postgres/look.sql "$FRESHET_READER_URL"

-- Oldest transactions. Row versions that died after their start cannot be removed.
SELECT pid, usename, application_name, state, now() - xact_start AS open_for, age(backend_xmin) AS xmin_age,
       wait_event_type, wait_event, left(query, 80) AS query
FROM pg_stat_activity
WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY xact_start LIMIT 5;

-- Prepared transactions, replication slots and standbys also keep old row versions.
SELECT 'prepared transaction' AS what, gid AS name, age(transaction) AS xmin_age FROM pg_prepared_xacts
UNION ALL
SELECT 'replication slot', slot_name, greatest(age(xmin), age(catalog_xmin)) FROM pg_replication_slots
UNION ALL
SELECT 'standby', application_name, age(backend_xmin) FROM pg_stat_replication
ORDER BY xmin_age DESC NULLS LAST LIMIT 5;

-- Blocked sessions and their blockers.
SELECT waiting.pid, pg_blocking_pids(waiting.pid) AS blocked_by, now() - waiting.query_start AS waits_for,
       left(waiting.query, 80) AS query
FROM pg_stat_activity AS waiting
WHERE cardinality(pg_blocking_pids(waiting.pid)) > 0
ORDER BY waiting.query_start LIMIT 10;

-- Dead row versions, and when they were last removed.
SELECT relname, n_live_tup, n_dead_tup, last_autovacuum, last_autoanalyze, autovacuum_count,
       pg_size_pretty(pg_total_relation_size(relid)) AS size
FROM pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 8;

-- Connections by user, application and state.
SELECT usename, application_name, state, count(*) FROM pg_stat_activity
WHERE datname = current_database() GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 12;

-- Age of the oldest unfrozen transaction id. The server stops at about 2,000,000,000.
SELECT datname, age(datfrozenxid) AS transactions FROM pg_database ORDER BY 2 DESC LIMIT 3;

-- Latest schema migrations.
SELECT version, name, applied_at FROM freshet_migration ORDER BY version DESC LIMIT 3;
