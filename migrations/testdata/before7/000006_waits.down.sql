DROP VIEW pglock.waits RESTRICT;

UPDATE pglock.schema_migrations SET version = 5, dirty = false;
