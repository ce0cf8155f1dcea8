-- The role under which traces read: it can read the schema and write nothing (rule r40).
SET LOCAL lock_timeout = '10s';

-- A role belongs to the whole server, and several databases of one server may be migrated at once. Where roles are
-- not this user's to create (a managed server), the migration goes on without: an administrator makes the role, or
-- the routing service is told to do without it.
DO $$
BEGIN
    IF to_regrole('weir_reader') IS NULL THEN
        BEGIN
            CREATE ROLE weir_reader NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;    -- another database's migration was faster
            WHEN insufficient_privilege THEN
                RAISE WARNING 'role weir_reader is missing and % may not create it: traces are refused until an administrator makes it, or WEIR_ROUTING__READ_ROLE is empty', current_user;
        END;
    END IF;
    IF to_regrole('weir_reader') IS NULL THEN
        RETURN;
    END IF;

    GRANT USAGE ON SCHEMA weir TO weir_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA weir TO weir_reader;
    GRANT EXECUTE ON FUNCTION weir.clock() TO weir_reader;
    -- Tables of later migrations and of later days. A day's payloads are read through event_body anyway.
    ALTER DEFAULT PRIVILEGES IN SCHEMA weir GRANT SELECT ON TABLES TO weir_reader;

    -- A superuser may take any role on; granting it would only race with other databases' migrations.
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        BEGIN
            EXECUTE format('GRANT weir_reader TO %I', current_user);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'role weir_reader is not for % to grant: traces are refused until an administrator runs GRANT weir_reader TO the user that the routing service connects as', current_user;
        END;
    END IF;
END $$;
