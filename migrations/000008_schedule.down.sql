DROP FUNCTION pglock.tick(pg_catalog.text, timestamp with time zone, pg_catalog.text, interval, integer) RESTRICT;

DROP TABLE pglock.runs RESTRICT;

DROP TABLE pglock.jobs RESTRICT;

UPDATE pglock.schema_migrations SET version = 7, dirty = false;
