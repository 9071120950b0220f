-- The registry of names, which turns the numbers in pg_locks back into what people called their locks.
--
-- A name is in the index as well as in the table, and an index row has to fit a third of a page, so names have a bound
-- far below that. COLLATE "C" keeps the index valid when the operating system's collations change.

CREATE TABLE pglock.names (
    key bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT pg_catalog.now(),
    CONSTRAINT names_pkey PRIMARY KEY (key, name),
    CONSTRAINT names_key_is_of_name CHECK (key = pglock.key(name)),
    CONSTRAINT names_name_fits_index CHECK (pg_catalog.octet_length(name) <= 1024)
);

REVOKE ALL ON TABLE pglock.names FROM PUBLIC;

COMMENT ON TABLE pglock.names IS
    'The names that locks were taken by. Two rows with one key are two names that are the same lock. '
    'Rows may be deleted at any time';
COMMENT ON COLUMN pglock.names.key IS 'pglock.key(name), the number of the lock in the space of bigint keys';
COMMENT ON COLUMN pglock.names.name IS 'The name, of at most 1024 bytes';
COMMENT ON COLUMN pglock.names.first_seen IS 'When the name was registered, by the clock of the server';
COMMENT ON CONSTRAINT names_pkey ON pglock.names IS 'Finds the names of a key, more than one if names collide';
COMMENT ON CONSTRAINT names_key_is_of_name ON pglock.names IS 'No name is recorded for a number that is not its own';
COMMENT ON CONSTRAINT names_name_fits_index ON pglock.names IS 'Keeps rows well below the size limit of an index row';

-- Names that are known already are left alone: no row version, no transaction ID, no WAL. The order of the rows is the
-- same for everybody, so that two calls that register the same new names wait for each other and do not deadlock. The
-- owner's rights are used, so that who registers names needs none on the table.

CREATE FUNCTION pglock.register(VARIADIC names text[]) RETURNS bigint
LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH added AS (
        INSERT INTO pglock.names (key, name)
        SELECT DISTINCT pglock.key(given.name), given.name COLLATE "C"
        FROM unnest(register.names) AS given (name)
        WHERE octet_length(given.name) <= 1024
        ORDER BY 1, 2
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT count(*) FROM added
$$;

REVOKE ALL ON FUNCTION pglock.register(text[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.register(text[]) IS
    'Records names for the views and returns how many were new. Names over 1024 bytes and NULLs are passed over. '
    'Best called in a transaction of its own: others who register the same new name wait until that ends';

UPDATE pglock.schema_migrations SET version = 3, dirty = false;
