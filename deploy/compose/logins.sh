#!/usr/bin/env bash
# PostgreSQL's image runs this after it has created the database. Creates roles, and logins with the secrets' passwords.
set -euo pipefail

psql=(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres --dbname freshet)
"${psql[@]}" --file /roles.sql
# Passwords must appear neither in arguments, which others can read, nor in the server's log.
"${psql[@]}" <<SQL
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
CREATE ROLE freshet_migrate LOGIN PASSWORD '$(cat /run/secrets/postgres-migrate)' IN ROLE freshet_owner;
ALTER ROLE freshet_migrate SET role = 'freshet_owner';
CREATE ROLE freshet_run LOGIN PASSWORD '$(cat /run/secrets/postgres-run)' CONNECTION LIMIT 80 IN ROLE freshet_service;
SQL
