-- There is nothing to undo: version 6 has the same definitions.

UPDATE pglock.schema_migrations SET version = 6, dirty = false;
