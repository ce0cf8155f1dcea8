-- The same signature and properties as the plain clock, so that statements need not know. A test
-- moves the clock by an UPDATE, which every statement after it sees.
CREATE TABLE weir.test_clock (offset_by interval NOT NULL);
INSERT INTO weir.test_clock VALUES ('0s');
CREATE OR REPLACE FUNCTION weir.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp() + (SELECT offset_by FROM weir.test_clock)';
