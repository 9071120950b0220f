DROP FUNCTION pglock.limit_rights() RESTRICT;

UPDATE pglock.schema_migrations SET version = 11, dirty = false;
