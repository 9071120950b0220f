DROP FUNCTION pglock.rate_prune(integer) RESTRICT;

DROP FUNCTION pglock.rate_return(pg_catalog.text, bigint, bigint) RESTRICT;

DROP FUNCTION pglock.rate_take(pg_catalog.text[], bigint[], bigint[], bigint[], bigint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.rate_clock() RESTRICT;

DROP TABLE pglock.rates RESTRICT;

UPDATE pglock.schema_migrations SET version = 9, dirty = false;
