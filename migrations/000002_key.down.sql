DROP FUNCTION pglock.key(pg_catalog.text) RESTRICT;

UPDATE pglock.schema_migrations SET version = 1, dirty = false;
