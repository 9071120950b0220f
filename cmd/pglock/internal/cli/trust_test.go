package cli_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A superuser runs every command in a database where a tenant has planted code, and none of it is executed.
func TestLongTrustATenantGainsNothingByAnyCommand(t *testing.T) {
	for name, plant := range map[string]func(*testenv.Tenant){
		"a planted schema":   func(tenant *testenv.Tenant) { tenant.PlantSchema(migrations.Latest()) },
		"at an old version":  func(tenant *testenv.Tenant) { tenant.PlantSchema(1) },
		"a search_path only": func(tenant *testenv.Tenant) { tenant.PlantSearchPath() },
		"both": func(tenant *testenv.Tenant) {
			tenant.PlantSearchPath()
			tenant.PlantOperators("public")
			tenant.PlantSchema(migrations.Latest())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Database(t)
			tenant := db.Tenant(t)
			holder := connectAs(t, tenant.ConnString())
			_, err := holder.Exec(t.Context(), fmt.Sprintf("SELECT pg_advisory_lock(%d)", pglock.NewKey("a").Int64()))
			must.Succeed(t, err)
			plant(tenant)
			planted := name != "a search_path only"
			session := fmt.Sprint(holder.PgConn().PID())
			for _, c := range []struct {
				args []string
				code int // where a schema is planted; otherwise 65 is 0
				says string
			}{
				{[]string{"migrate", "up"}, 65, tenant.Name()},
				{[]string{"migrate", "version"}, 65, tenant.Name()},
				{[]string{"migrate", "down", "--yes"}, 65, tenant.Name()},
				{[]string{"migrate", "up"}, 65, tenant.Name()},
				{[]string{"monitor", "--once", "-o", "json"}, 0, tenant.Name()},
				{[]string{"monitor", "--once"}, 0, ""},
				{[]string{"check", "--critical", "1h"}, 0, ""},
				{[]string{"doctor"}, 78, tenant.Name()},
				{[]string{"run", "invoice:42", "--", "true"}, 0, tenant.Name()},
				{[]string{"run", "-s", "-w", "1", "invoice:42", "--", "true"}, 0, tenant.Name()},
				{[]string{"run", "-n", "a", "--", "true"}, 75, ""},
				{[]string{"cancel", session}, 64, ""},
				{[]string{"terminate", session}, 64, ""},
				{[]string{"key", "a"}, 0, ""},
			} {
				r := on(t, db, c.args...).run()
				switch {
				case planted:
					wantCode(t, r, c.code)
					wantText(t, r.stdout+r.stderr, c.says)
				case c.code == 65:
					wantCode(t, r, 0)
				case c.args[0] != "doctor":
					wantCode(t, r, c.code)
				}
				if super, _ := tenant.Gained(); super {
					t.Fatalf("pglock %q made the tenant a superuser", c.args)
				}
			}
			scrape(serveOn(t, db))
			must.Succeed(t, holder.Close(context.Background()))
			tenant.WantNothingGained("after every command")
		})
	}
}

// The commands that identify a server execute nothing from the search_path.
func TestTrustACommandAsksAServerWhatItIsSafely(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	for _, args := range [][]string{{"monitor", "--once"}, {"migrate", "up"}, {"run", "a", "--", "true"}} {
		for _, wanted := range []string{"primary", "prefer-standby"} {
			variables := []string{"DATABASE_URL=" + db.ConnString(), "PGTARGETSESSIONATTRS=" + wanted}
			wantCode(t, command(t, variables, args...).run(), 0)
			tenant.WantNothingGained(fmt.Sprintf("after pglock %q of a server that is %s", args, wanted))
		}
	}
}

func connectAs(t *testing.T, connString string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(connString)
	must.Succeed(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// scrape waits for a snapshot, and ends the process.
func scrape(p *process) {
	p.t.Helper()
	p.metrics("pglock_up 1\n")
	p.signal(os.Interrupt)
	wantCode(p.t, p.end(), 0)
}

// Every command has the flag that names trusted owners.
func TestTrustOwnerIsAFlagOfEveryCommand(t *testing.T) {
	db := testenv.Installed(t)
	owner := connectAs(t, db.Role(t, "owner"))
	role := owner.Config().User
	execute(t, db, "ALTER SCHEMA pglock OWNER TO "+role)
	for _, args := range [][]string{
		{"migrate", "version"}, {"migrate", "up"}, {"monitor", "--once"}, {"run", "a", "--", "sh", "-c", "test -n \"$PGLOCK_FENCE\""},
		{"doctor", "--fail-on=problem"},
	} {
		with := append([]string{args[0], args[1], "--trust-owner", role}, args[2:]...)
		unknown := append([]string{args[0], args[1], "--trust-owner", "no such role"}, args[2:]...)
		if args[0] == "run" {
			with = append([]string{"run", "--trust-owner", role}, args[1:]...)
			unknown = append([]string{"run", "--trust-owner", "no such role"}, args[1:]...)
		}
		wantCode(t, on(t, db, with...).run(), 0)
		r := on(t, db, unknown...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, `"no such role"`)
	}
	wantCode(t, on(t, db, "migrate", "version").run(), 65)
	r := on(t, db, "run", "a", "--", "sh", "-c", "test -z \"$PGLOCK_FENCE\"").run()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "without PGLOCK_FENCE", role)
	r = on(t, db, "doctor", "--verbose", "--trust-owner", role).run()
	wantText(t, r.stdout, "trusted to own schema pglock", "superusers", role)
	r = on(t, db, "serve", "--listen", "127.0.0.1:0", "--trust-owner", "no such role").run()
	wantCode(t, r, 64)
	wantCode(t, on(t, db, "run", "--trust-owner", "", "a", "--", "true").run(), 64)
}
