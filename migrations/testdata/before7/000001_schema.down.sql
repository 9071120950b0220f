-- RESTRICT: what others have put into the schema stays, and makes this an error.

DROP TABLE pglock.schema_migrations RESTRICT;

DROP SCHEMA pglock RESTRICT;
