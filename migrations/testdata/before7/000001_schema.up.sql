-- The schema and the record of its version. Every migration keeps that record itself, so that it is right whichever
-- tool runs the file. The table has the shape that golang-migrate expects of one. The name of its primary key is how
-- this schema is told from another one that is called pglock.

CREATE SCHEMA pglock;

REVOKE ALL ON SCHEMA pglock FROM PUBLIC;

COMMENT ON SCHEMA pglock IS 'Advisory locks by name (github.com/pglock-toolkit/pglock)';

CREATE TABLE pglock.schema_migrations (
    version bigint NOT NULL,
    dirty boolean NOT NULL DEFAULT false,
    CONSTRAINT pglock_toolkit_schema_migrations PRIMARY KEY (version)
);

REVOKE ALL ON TABLE pglock.schema_migrations FROM PUBLIC;

COMMENT ON TABLE pglock.schema_migrations IS 'The version of schema pglock, in one row';
COMMENT ON COLUMN pglock.schema_migrations.version IS 'The number of the last migration that was applied';
COMMENT ON COLUMN pglock.schema_migrations.dirty IS
    'Always false, since a migration and its row here are one transaction';
COMMENT ON CONSTRAINT pglock_toolkit_schema_migrations ON pglock.schema_migrations IS
    'Its name marks the schema as the one of github.com/pglock-toolkit/pglock';

INSERT INTO pglock.schema_migrations (version) VALUES (1);
