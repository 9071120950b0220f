-- pglock.waits stays as it is: in version 13 it shows the same, more slowly.

DROP VIEW pglock.blockers RESTRICT;

DROP FUNCTION pglock.find_blockers() RESTRICT;

UPDATE pglock.schema_migrations SET version = 13, dirty = false;
