DROP INDEX pglock.names_semaphores RESTRICT;

DROP FUNCTION pglock.semaphore_of(pg_catalog.text) RESTRICT;

DROP FUNCTION pglock.limit_rights() RESTRICT;

UPDATE pglock.schema_migrations SET version = 11, dirty = false;
