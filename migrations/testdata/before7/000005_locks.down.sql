DROP VIEW pglock.locks RESTRICT;

UPDATE pglock.schema_migrations SET version = 4, dirty = false;
