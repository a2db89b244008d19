-- Roles and privileges in Freshet's database. Run this in that database as its owner or a superuser, before the first
-- `freshet migrate` and after each one. It is idempotent.
--
--   psql --no-psqlrc --set ON_ERROR_STOP=1 --dbname freshet --file deploy/postgres/roles.sql
--
-- Creates three roles without login. Create login roles with your own passwords or certificates as their members:
--
--   CREATE ROLE freshet_migrate LOGIN PASSWORD '…' IN ROLE freshet_owner;
--   ALTER ROLE freshet_migrate SET role = 'freshet_owner';            -- its objects belong to the role
--   CREATE ROLE freshet_run LOGIN PASSWORD '…' CONNECTION LIMIT 240 IN ROLE freshet_service;
--   CREATE ROLE freshet_look LOGIN PASSWORD '…' CONNECTION LIMIT 5 IN ROLE freshet_reader;
--   ALTER ROLE freshet_look SET default_transaction_read_only = on;
--   ALTER ROLE freshet_look SET statement_timeout = '30s';
--   ALTER ROLE freshet_look SET idle_in_transaction_session_timeout = '60s';
--
-- freshet_owner    owns the tables; for `freshet migrate` only
-- freshet_service  reads and writes rows, but creates, alters and drops nothing; for `freshet run` and operators' commands
-- freshet_reader   reads all columns except secrets; for people, dashboards and reports

DO $roles$
DECLARE
    wanted text;
    object record;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['freshet_owner', 'freshet_service', 'freshet_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;

    -- No access for roles other than these.
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO freshet_owner, freshet_service, freshet_reader', current_database());
    -- `freshet widgets import` copies into a temporary table.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO freshet_service', current_database());
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    GRANT USAGE, CREATE ON SCHEMA public TO freshet_owner;
    GRANT USAGE ON SCHEMA public TO freshet_service, freshet_reader;

    -- Takes over tables that another role has created, except those of extensions. A sequence follows its column.
    IF to_regclass('public.freshet_migration') IS NOT NULL THEN
        FOR object IN
            SELECT class.relname, class.relkind
            FROM pg_class AS class
            WHERE class.relnamespace = 'public'::regnamespace AND class.relkind IN ('r', 'p', 'v', 'S')
              AND class.relowner <> 'freshet_owner'::regrole
              AND NOT EXISTS (
                  SELECT FROM pg_depend AS depends
                  WHERE depends.classid = 'pg_class'::regclass AND depends.objid = class.oid
                    AND depends.deptype IN ('e', 'a', 'i'))
        LOOP
            EXECUTE format(
                'ALTER %s public.%I OWNER TO freshet_owner',
                CASE object.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, object.relname);
        END LOOP;
        FOR object IN
            SELECT proc.oid::regprocedure AS signature
            FROM pg_proc AS proc
            WHERE proc.pronamespace = 'public'::regnamespace AND proc.proowner <> 'freshet_owner'::regrole
              AND NOT EXISTS (
                  SELECT FROM pg_depend AS depends
                  WHERE depends.classid = 'pg_proc'::regclass AND depends.objid = proc.oid AND depends.deptype = 'e')
        LOOP
            EXECUTE format('ALTER ROUTINE %s OWNER TO freshet_owner', object.signature);
        END LOOP;
    END IF;

    -- Includes tables of later migrations, so that a new version can run before this script is run again.
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO freshet_service;
    -- The sequence of tokens is set after a failover, which USAGE does not allow.
    GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO freshet_service;
    ALTER DEFAULT PRIVILEGES FOR ROLE freshet_owner IN SCHEMA public
        GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO freshet_service;
    ALTER DEFAULT PRIVILEGES FOR ROLE freshet_owner IN SCHEMA public
        GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO freshet_service;
    IF to_regclass('public.freshet_migration') IS NOT NULL THEN
        REVOKE INSERT, UPDATE, DELETE ON public.freshet_migration FROM freshet_service;
    END IF;

    -- Readers get all present columns except secrets. Run this again to include those of later migrations.
    REVOKE ALL ON ALL TABLES IN SCHEMA public FROM freshet_reader;
    FOR object IN
        SELECT class.relname, string_agg(quote_ident(attribute.attname), ', ' ORDER BY attribute.attnum) AS columns
        FROM pg_class AS class
        JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
        WHERE class.relnamespace = 'public'::regnamespace AND class.relkind IN ('r', 'p', 'v')
          AND class.relowner = 'freshet_owner'::regrole
          AND attribute.attnum > 0 AND NOT attribute.attisdropped
          AND attribute.attname NOT LIKE '%secret%' AND class.relname NOT LIKE '%secret%'
        GROUP BY class.relname
    LOOP
        EXECUTE format('GRANT SELECT (%s) ON public.%I TO freshet_reader', object.columns, object.relname);
    END LOOP;
END
$roles$;

-- The service and readers monitor the age of the oldest transaction of any role.
GRANT pg_read_all_stats TO freshet_service, freshet_reader;
-- A process that hangs in the middle of a transaction holds locks, and keeps dead row versions from being removed.
ALTER ROLE freshet_service SET idle_in_transaction_session_timeout = '5min';
