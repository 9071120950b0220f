DROP FUNCTION pglock.key(text) RESTRICT;

UPDATE pglock.schema_migrations SET version = 1, dirty = false;
