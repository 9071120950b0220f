-- A function for each lock of the project, for triggers, psql and other languages: they take the lock that the Go
-- function of the same name takes, as in
--
--   SELECT pg_advisory_xact_lock(SCHEMA_NAME.EXAMPLE_CALL);
--
-- The functions are immutable: the settings of a session (TimeZone, DateStyle, client_encoding) and the encoding of the
-- database make no difference. convert_to is only STABLE to PostgreSQL, since the server's conversion to UTF-8 could be
-- replaced. NULL, and infinity, make no name and are errors, as are names that are too long. The file can be applied
-- again.

CREATE SCHEMA IF NOT EXISTS SCHEMA_NAME;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_key(VARIADIC parts text[]) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$
DECLARE
    name bytea := convert_to(array_to_string(parts, ''), 'UTF8');
BEGIN
    IF array_position(parts, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a lock cannot be named by NULL or infinity: %', parts USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF length(name) > 1024 THEN
        RAISE EXCEPTION 'the name of a lock has % bytes; the bound is 1024', length(name)
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    RETURN ('x' || encode(substring(sha256(name) FOR 8), 'hex'))::bit(64)::bigint;
END
$pglock$;
COMMENT ON FUNCTION SCHEMA_NAME.pglock_key(text[]) IS 'The key of a name, which is given in parts';

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$ SELECT value::text $pglock$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value boolean) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$ SELECT CASE WHEN value THEN 'true' ELSE 'false' END $pglock$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value uuid) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$ SELECT value::text $pglock$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$
    SELECT replace(replace(replace(replace(replace(value,
        '%', '%25'), ':', '%3A'), '@', '%40'), '{', '%7B'), '}', '%7D')
$pglock$;

-- The microseconds since 1970 in UTC. Whole minutes and the rest are exact in the floating-point numbers that date_part
-- returns; extract would be numeric on PostgreSQL 14 and later only.
CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $pglock$
    SELECT CASE WHEN isfinite(value) THEN
        (date_part('epoch', date_trunc('minute', timezone('UTC', value)))::bigint::numeric * 1000000
            + date_part('microseconds', timezone('UTC', value))::bigint)::text
    END
$pglock$;
