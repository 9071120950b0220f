DROP SEQUENCE pglock.fence RESTRICT;

UPDATE pglock.schema_migrations SET version = 3, dirty = false;
