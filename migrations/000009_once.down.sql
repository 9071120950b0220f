DROP FUNCTION pglock.once_prune(interval) RESTRICT;

DROP FUNCTION pglock.once_or_raise(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean) RESTRICT;

DROP FUNCTION pglock.once(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean, boolean) RESTRICT;

DROP FUNCTION pglock.once_record(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, pg_catalog.bytea) RESTRICT;

DROP TABLE pglock.once_slots RESTRICT;

DROP TABLE pglock.once_records RESTRICT;

UPDATE pglock.schema_migrations SET version = 8, dirty = false;
