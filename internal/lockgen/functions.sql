-- A function for each lock of the project, for triggers, psql and other languages: they take the lock that the Go
-- function of the same name takes, as in
--
--   SELECT pg_advisory_xact_lock(SCHEMA_NAME.EXAMPLE_CALL);
--
-- The functions are immutable: the settings of a session (TimeZone, DateStyle, client_encoding) and the encoding of the
-- database make no difference. convert_to is only STABLE to PostgreSQL, since the server's conversion to UTF-8 could be
-- replaced. NULL, and infinity, make no name and are errors, as are names that are too long.
--
-- The file is one statement, so it takes effect as a whole or not at all, and it can be applied again. It uses nothing
-- that search_path could replace, and refuses a schema in which another role owns something or could put it.

DO $pglock$
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
    found_role pg_catalog.text;
    found_thing pg_catalog.text;
BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = SCHEMA_TEXT) THEN
    CREATE SCHEMA SCHEMA_NAME;
END IF;
SELECT thing, CASE role WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(role) END INTO found_thing, found_role
FROM (
    SELECT 'the schema itself', nspowner FROM pg_namespace WHERE nspname = SCHEMA_TEXT
    UNION ALL
    SELECT 'the function ' || p.oid::regprocedure, p.proowner
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = SCHEMA_TEXT
    UNION ALL
    SELECT 'the right CREATE', acl.grantee
    FROM pg_namespace, aclexplode(nspacl) AS acl WHERE nspname = SCHEMA_TEXT AND acl.privilege_type = 'CREATE'
) AS found (thing, role)
WHERE role <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
LIMIT 1;
IF FOUND THEN
    RAISE EXCEPTION 'in schema %, role % has %, and could change what the functions of locks do',
            SCHEMA_TEXT, found_role, found_thing
        USING ERRCODE = 'insufficient_privilege',
            HINT = 'Nothing was changed. Drop or revoke it, apply the file as that role, or choose another schema (sql_schema).';
END IF;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_key(VARIADIC parts pg_catalog.text[]) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
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
$body$;
COMMENT ON FUNCTION SCHEMA_NAME.pglock_key(pg_catalog.text[]) IS 'The key of a name, which is given in parts';

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value bigint) RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT value::text $body$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value boolean) RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT CASE WHEN value THEN 'true' ELSE 'false' END $body$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value pg_catalog.uuid) RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT value::text $body$;

CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value pg_catalog.text) RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT replace(replace(replace(replace(replace(value,
        '%', '%25'), ':', '%3A'), '@', '%40'), '{', '%7B'), '}', '%7D')
$body$;

-- The microseconds since 1970 in UTC. Whole minutes and the rest are exact in the floating-point numbers that date_part
-- returns; extract would be numeric on PostgreSQL 14 and later only.
CREATE OR REPLACE FUNCTION SCHEMA_NAME.pglock_value(value pg_catalog.timestamptz) RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT CASE WHEN isfinite(value) THEN
        (date_part('epoch', date_trunc('minute', timezone('UTC', value)))::bigint::numeric * 1000000
            + date_part('microseconds', timezone('UTC', value))::bigint)::text
    END
$body$;
