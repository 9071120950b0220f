package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Tenant is a role without rights that owns the database of the test, and sets traps there for more powerful roles:
// code that gives it rights when another role executes it.
type Tenant struct {
	t          testing.TB
	db         *DB
	name       string
	connString string
}

// Tenant makes the tenant. Its traps call its function trap.spring.
func (db *DB) Tenant(t testing.TB) *Tenant {
	t.Helper()
	connString := db.Role(t, "tenant")
	config, err := pgx.ParseConfig(connString)
	must.Succeed(t, err)
	tenant := &Tenant{t: t, db: db, name: config.User, connString: connString}
	for _, statement := range []string{
		fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", identifier(db.name), identifier(tenant.name)),
		fmt.Sprintf("ALTER DATABASE %s SET track_functions = 'all'", identifier(db.name)),
	} {
		must.Succeed(t, db.asAdmin(execute(statement)))
	}
	tenant.Exec(fmt.Sprintf(trapFunctions, identifier(tenant.name), "'"+tenant.name+"'"))
	return tenant
}

// The server counts the calls of trap.sprung, even in transactions that are rolled back. It counts them when a session
// ends (PostgreSQL 14 some time later); until then a lock of the session shows them.
const trapFunctions = `
CREATE SCHEMA trap;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
CREATE FUNCTION trap.sprung() RETURNS pg_catalog.bool LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_catalog.pg_advisory_lock_shared(808080808);
	BEGIN
		EXECUTE 'ALTER ROLE %[1]s SUPERUSER';
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	RETURN true;
END $$;
CREATE FUNCTION trap.spring() RETURNS pg_catalog.bool LANGUAGE plpgsql AS $$
BEGIN
	IF current_user OPERATOR(pg_catalog.<>) %[2]s::pg_catalog.name
		OR session_user OPERATOR(pg_catalog.<>) %[2]s::pg_catalog.name THEN
		RETURN trap.sprung();
	END IF;
	RETURN true;
END $$;
CREATE FUNCTION trap.trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM trap.spring();
	RETURN NEW;
END $$`

// Name returns the name of the role.
func (tenant *Tenant) Name() string { return tenant.name }

// ConnString returns a connection string of the tenant.
func (tenant *Tenant) ConnString() string { return tenant.connString }

// Exec runs SQL as the tenant.
func (tenant *Tenant) Exec(sql string) {
	tenant.t.Helper()
	if err := connected(tenant.connString, execute("SET search_path = pg_catalog; "+sql)); err != nil {
		tenant.t.Fatalf("as the tenant: %v\n%s", err, sql)
	}
}

// PlantOperators offers, in a schema, operators that fit many types exactly and spring the trap.
func (tenant *Tenant) PlantOperators(schema string) {
	tenant.t.Helper()
	tenant.Exec(strings.ReplaceAll(plantOperators, "{schema}", identifier(schema)))
}

// Operators of one result share a function, as making these is what takes long.
const plantOperators = `
DO $do$
DECLARE
	types record;
	kind record;
	symbol text;
	number int := 0;
BEGIN
	FOR types IN
		SELECT t AS l, t AS r FROM unnest('{int2,int4,int8,text,oid,name,bool,timestamptz,jsonb,bytea,xid,float8,
			interval,numeric,varchar,bpchar,text[],int8[],int2[],regclass}'::text[]) AS t
		UNION ALL VALUES ('int2','int4'), ('int4','int2'), ('int8','int4'), ('int4','int8'), ('oid','int8'),
			('oid','int4'), ('text','int8'), ('text','int4'), ('text','int2'), ('text','oid'), ('text','name'),
			('name','text'), ('jsonb','text'), ('text','jsonb'), ('int8','text'), ('int4','text'), ('text','varchar')
	LOOP
		FOR kind IN VALUES ('text', '{||,->>}'::text[]), (types.l, '{<<,>>,|,&,+,-,*,/,#,->}'),
			('bool', '{=,<>,<,<=,>,>=,~~,!~~,~,!~,^}') LOOP
			number := number + 1;
			EXECUTE format('CREATE FUNCTION {schema}.%I(%s, %s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS
				''BEGIN PERFORM trap.spring(); RETURN NULL; END''', 'operator_' || number, types.l, types.r, kind.column1);
			FOREACH symbol IN ARRAY kind.column2 LOOP
				EXECUTE format('CREATE OPERATOR {schema}.%s (FUNCTION = {schema}.%I, LEFTARG = %s, RIGHTARG = %s)',
					symbol, 'operator_' || number, types.l, types.r);
			END LOOP;
		END LOOP;
	END LOOP;
END $do$`

// PlantSearchPath makes every session of the database find the tenant's operators, functions and types before
// the server's.
func (tenant *Tenant) PlantSearchPath() {
	tenant.t.Helper()
	tenant.PlantOperators("trap")
	tenant.Exec(plantFunctions)
	tenant.PlantTypes()
}

// PlantTypes makes every session of the database find the tenant's types before the server's, and nothing else: more
// statements can be prepared then than after PlantSearchPath.
func (tenant *Tenant) PlantTypes() {
	tenant.t.Helper()
	tenant.Exec(plantTypes)
	tenant.Exec(fmt.Sprintf("ALTER DATABASE %s SET search_path = trap, public, pg_catalog", identifier(tenant.db.name)))
	tenant.t.Cleanup(func() {
		reset := fmt.Sprintf("ALTER DATABASE %s RESET search_path", identifier(tenant.db.name))
		if err := tenant.db.asAdmin(execute(reset)); err != nil {
			tenant.t.Error(err)
		}
	})
}

const plantFunctions = `
DO $do$
DECLARE
	f record;
BEGIN
	FOR f IN
		SELECT p.oid::regprocedure AS signature, p.proname, p.proretset,
			pg_get_function_identity_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
		FROM pg_proc AS p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
		  AND p.proname = ANY ('{unnest,octet_length,length,encode,decode,sha256,convert_to,now,clock_timestamp,
			current_setting,set_config,pg_backend_pid,to_jsonb,format,substring,concat,current_database,version,
			generate_subscripts,generate_series,int8send,int4send,pg_is_in_recovery,pg_advisory_lock,
			pg_try_advisory_lock,pg_advisory_unlock,pg_advisory_unlock_all,pg_try_advisory_lock_shared,
			pg_blocking_pids,has_schema_privilege,has_table_privilege,pg_has_role,host,age,nextval,
			pg_terminate_backend,pg_cancel_backend,cardinality,array_length,quote_ident,upper,lower}'::text[])
		  AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a WHERE a IN ('internal'::regtype, 'cstring'::regtype,
			'"any"'::regtype))
	LOOP
		EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS %L', f.proname,
			f.arguments, f.result, CASE WHEN f.proretset OR f.result = 'void' THEN 'BEGIN PERFORM trap.spring(); RETURN; END'
				ELSE 'BEGIN PERFORM trap.spring(); RETURN NULL; END' END);
	END LOOP;
END $do$;
CREATE FUNCTION trap.counted(pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE plpgsql
	AS 'BEGIN PERFORM trap.spring(); RETURN 0; END';
CREATE AGGREGATE trap.count(*) (SFUNC = trap.counted, STYPE = pg_catalog.int8, INITCOND = '0')`

const plantTypes = `
DO $do$
DECLARE
	type text;
BEGIN
	FOREACH type IN ARRAY '{text,int2,int4,int8,oid,bool,name,timestamptz,bytea,json,jsonb,regclass}'::text[] LOOP
		EXECUTE format('CREATE DOMAIN trap.%I AS pg_catalog.%I CHECK (trap.spring())', type, type);
	END LOOP;
END $do$`

// PlantSchema makes a schema pglock that looks like the latest version of package migrations, but consists of traps.
func (tenant *Tenant) PlantSchema(version uint) {
	tenant.t.Helper()
	tenant.Exec(fmt.Sprintf(plantSchema, version))
}

const plantSchema = `
CREATE SCHEMA pglock;
GRANT ALL ON SCHEMA pglock TO PUBLIC;
CREATE FUNCTION pglock.toolkit_version() RETURNS bigint LANGUAGE sql AS 'SELECT %d';
CREATE TABLE pglock.jobs (name text CHECK (trap.spring()));
CREATE TRIGGER trap BEFORE INSERT OR UPDATE OR DELETE ON pglock.jobs
	FOR EACH ROW EXECUTE FUNCTION trap.trigger();
ALTER TABLE pglock.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY trap ON pglock.jobs USING (trap.spring());
CREATE VIEW pglock.names AS
	SELECT pg_catalog.int8 '-3848465438864589366' AS key, pg_catalog.text 'a' AS name, now() AS first_seen
	WHERE trap.spring();
CREATE FUNCTION pglock.register(VARIADIC names text[]) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN PERFORM trap.spring(); RETURN 0; END';
CREATE FUNCTION pglock.key(name text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN PERFORM trap.spring(); RETURN 0; END';
CREATE FUNCTION pglock.fence_draw(count integer) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN PERFORM trap.spring(); RETURN array_fill(1::bigint, ARRAY[count]); END';
CREATE SEQUENCE pglock.fence;
GRANT ALL ON ALL TABLES IN SCHEMA pglock TO PUBLIC;
GRANT ALL ON ALL SEQUENCES IN SCHEMA pglock TO PUBLIC`

// WantNothingGained fails the test if another role has executed a trap.
func (tenant *Tenant) WantNothingGained(after string) {
	tenant.t.Helper()
	if super, calls := tenant.Gained(); super || calls > 0 {
		tenant.t.Errorf("%s: the tenant is a superuser: %t; its code was executed by another role %d times",
			after, super, calls)
	}
}

// Gained reports whether a trap has made the tenant a superuser, and how often other roles have executed one, or in how
// many live sessions.
func (tenant *Tenant) Gained() (super bool, calls int64) {
	tenant.t.Helper()
	target := changed(tenant.db.ConnString(), func(target *url.URL) { // from the beginning: pgx may ask what the server is
		query := target.Query()
		query.Set("search_path", "pg_catalog")
		target.RawQuery = query.Encode()
	})
	err := connected(target, func(ctx context.Context, conn *pgx.Conn) error {
		poll(time.Second/10, func() bool { // those that are ending
			var others int
			err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
			return err != nil || others == 0
		})
		return conn.QueryRow(ctx, `
			SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = $1),
			       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = 808080808
			            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) +
			       coalesce((SELECT sum(calls) FROM pg_stat_user_functions WHERE funcname = 'sprung'), 0)::bigint`,
			tenant.name).Scan(&super, &calls)
	})
	if err != nil {
		tenant.t.Fatal(err)
	}
	return super, calls
}
