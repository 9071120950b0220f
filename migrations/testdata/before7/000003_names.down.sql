DROP FUNCTION pglock.register(text[]) RESTRICT;

DROP TABLE pglock.names RESTRICT;

UPDATE pglock.schema_migrations SET version = 2, dirty = false;
