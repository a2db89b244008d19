#!/usr/bin/env bash
# Run by PostgreSQL's image when it has made the database: roles, and logins with the passwords of the secrets.
set -euo pipefail

psql=(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres --dbname freshet)
"${psql[@]}" --file /roles.sql
# Not in an argument, where others could read it, and not in the server's log.
"${psql[@]}" <<SQL
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
CREATE ROLE freshet_migrate LOGIN PASSWORD '$(cat /run/secrets/postgres-migrate)' IN ROLE freshet_owner;
ALTER ROLE freshet_migrate SET role = 'freshet_owner';
CREATE ROLE freshet_run LOGIN PASSWORD '$(cat /run/secrets/postgres-run)' CONNECTION LIMIT 80 IN ROLE freshet_service;
SQL
