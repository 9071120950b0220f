-- The lock number of a name: the first 8 bytes, big-endian, of the SHA-256 of its UTF-8 bytes. It is part of the wire
-- format and never changes. convert_to is only STABLE to PostgreSQL, since the server's conversion to UTF-8 could be
-- replaced, which changes the numbers of locks.

CREATE FUNCTION pglock.key(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ('x' || encode(substring(sha256(convert_to(name, 'UTF8')) FOR 8), 'hex'))::bit(64)::bigint
$$;

REVOKE ALL ON FUNCTION pglock.key(text) FROM PUBLIC;

COMMENT ON FUNCTION pglock.key(text) IS
    'The advisory lock key of a name, as in SELECT pg_advisory_xact_lock(pglock.key(''invoice:42''))';

UPDATE pglock.schema_migrations SET version = 2, dirty = false;
