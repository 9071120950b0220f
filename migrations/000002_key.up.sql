-- The lock number of a name: the first 8 bytes, big-endian, of the SHA-256 of its UTF-8 bytes. It is part of the wire
-- format and never changes. convert_to is only STABLE to PostgreSQL, since the server's conversion to UTF-8 can be
-- replaced. That would change the numbers of the locks.

CREATE FUNCTION pglock.key(name pg_catalog.text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.encode(
        pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
$$;

REVOKE ALL ON FUNCTION pglock.key(pg_catalog.text) FROM PUBLIC;

COMMENT ON FUNCTION pglock.key(pg_catalog.text) IS
    'The advisory lock key of a name, as in SELECT pg_advisory_xact_lock(pglock.key(''invoice:42''))';

UPDATE pglock.schema_migrations SET version = 2, dirty = false;
