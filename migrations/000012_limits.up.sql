-- Limits what a role can do that was given a right on the schema, or that records names.
--
-- The first function takes away rights on the schema that no role needs, such as those that ALTER DEFAULT PRIVILEGES has given to a role.
-- What the schema lets a role do, it does through functions, and reading is harmless. So only these rights stay: USAGE on the
-- schema, SELECT on tables and views, SELECT and USAGE on sequences, EXECUTE on functions. With others a role could attach
-- code that runs with the rights of the owner (TRIGGER, REFERENCES, CREATE), move fencing tokens back (UPDATE), or
-- forget what was done (DELETE, TRUNCATE).
--
-- Every migration that makes something ends with a call of this function, and so does migrations.Up. It does what its caller
-- may do, and passes over objects of other roles.
--
-- PostgreSQL does not record who made a trigger. When a role has lost TRIGGER, its trigger looks like the owner's. So where
-- there are triggers the right is not taken away.

CREATE FUNCTION pglock.limit_rights() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    given record;
    taken bigint := 0;
BEGIN
    FOR given IN
        WITH object AS (
            SELECT 'SCHEMA' AS kind, n.oid AS relation, quote_ident(n.nspname) AS name, '' AS columns,
                   n.nspowner AS owner, n.nspacl AS acl, '{USAGE}'::text[] AS harmless
            FROM pg_namespace AS n WHERE n.nspname = 'pglock'
            UNION ALL
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid,
                   format('%I.%I', n.nspname, c.relname), a.columns, c.relowner, a.acl,
                   CASE c.relkind WHEN 'S' THEN '{SELECT,USAGE}'::text[] ELSE '{SELECT}'::text[] END
            FROM pg_namespace AS n
            JOIN pg_class AS c ON c.relnamespace = n.oid
            CROSS JOIN LATERAL (
                SELECT '' AS columns, c.relacl AS acl
                UNION ALL
                SELECT format(' (%I)', t.attname), t.attacl
                FROM pg_attribute AS t WHERE t.attrelid = c.oid AND t.attacl IS NOT NULL AND NOT t.attisdropped
            ) AS a
            WHERE n.nspname = 'pglock'
        )
        SELECT o.kind, o.relation, o.name, o.columns, a.privilege_type,
               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
        FROM object AS o CROSS JOIN LATERAL aclexplode(o.acl) AS a
        WHERE a.grantee <> o.owner AND a.privilege_type <> ALL (o.harmless) AND pg_has_role(o.owner, 'USAGE')
        ORDER BY o.kind, o.name, o.columns
    LOOP
        IF given.privilege_type = 'TRIGGER' AND EXISTS (
            SELECT FROM pg_trigger AS t WHERE t.tgrelid = given.relation AND NOT t.tgisinternal
        ) THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('table %s has a trigger that %s can have made, and whose code runs with the rights of '
                    'others: find out who made it, and drop it (pglock makes no triggers)', given.name, given.grantee);
        END IF;
        EXECUTE format('REVOKE %s%s ON %s %s FROM %s CASCADE',
            given.privilege_type, given.columns, given.kind, given.name, given.grantee);
        taken := taken + 1;
    END LOOP;
    RETURN taken;
END
$$;

REVOKE ALL ON FUNCTION pglock.limit_rights() FROM PUBLIC;

COMMENT ON FUNCTION pglock.limit_rights() IS
    'Takes away rights on the schema with which roles could run code as its owner or change what is recorded, and returns how many';

-- Finds the names of semaphores. A semaphore's locks have 36 bits of the number of its key (internal/lockkeys), and the
-- name with its key and limit is under the number of that name, not of the key. Without an index the monitor would
-- have to read all names of semaphores that any role has ever recorded. The function has the owner's rights, so that its
-- callers need none on pglock.key.

CREATE FUNCTION pglock.semaphore_of(name pg_catalog.text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key text := substring(name, '^pglock:semaphore:[0-9]+:(.*)$');
    part text[] := regexp_match(key, '^@(-?[0-9]{1,10})/(-?[0-9]{1,10})$');
    number bigint;
BEGIN
    IF part IS NOT NULL THEN
        number := (part[1]::bigint << 32) | (part[2]::bigint & 4294967295);
    ELSIF key ~ '^@-?[0-9]{1,19}$' THEN
        number := substring(key, 2)::bigint;
    ELSIF key !~ '^@([^@]|$)' THEN
        number := pglock.key(regexp_replace(key, '^@', ''));
    END IF;
    number := (number # ((number >> 36) & 268435455)) & 68719476735;
    RETURN CASE WHEN part IS NULL THEN number ELSE ~number & 68719476735 END;
EXCEPTION WHEN numeric_value_out_of_range THEN
    RETURN NULL;
END
$$;

REVOKE ALL ON FUNCTION pglock.semaphore_of(pg_catalog.text) FROM PUBLIC;

COMMENT ON FUNCTION pglock.semaphore_of(pg_catalog.text) IS
    'The part of a semaphore''s key that is in its locks, from the name that a Locker records for it. NULL for other names';

CREATE INDEX names_semaphores ON pglock.names (pglock.semaphore_of(name), first_seen)
    WHERE pg_catalog.starts_with(name, 'pglock:semaphore:');

COMMENT ON INDEX pglock.names_semaphores IS 'Finds the names of a semaphore';

SELECT pglock.limit_rights();

UPDATE pglock.schema_migrations SET version = 12, dirty = false;
