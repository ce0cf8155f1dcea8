-- The role stays: other databases of the server may use it, and a membership harms nobody.
SET LOCAL lock_timeout = '10s';

DO $$
BEGIN
    IF to_regrole('weir_reader') IS NULL THEN
        RETURN;
    END IF;
    ALTER DEFAULT PRIVILEGES IN SCHEMA weir REVOKE SELECT ON TABLES FROM weir_reader;
    REVOKE SELECT ON ALL TABLES IN SCHEMA weir FROM weir_reader;
    REVOKE EXECUTE ON FUNCTION weir.clock() FROM weir_reader;
    REVOKE USAGE ON SCHEMA weir FROM weir_reader;
END $$;
