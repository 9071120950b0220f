package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

func wantDenied(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, pglock.ErrDenied) || errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%s: want ErrDenied, got %v", what, err)
	}
}

// roleConfig is the configuration of a new role, and its name quoted.
func roleConfig(t *testing.T, db *testenv.DB) (config *pgxpool.Config, name string) {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.Role(t, "denied"))
	must.Succeed(t, err)
	return config, pgx.Identifier{config.ConnConfig.User}.Sanitize()
}

// A role or a database that is not as configured is not an outage: retries would never end.
func TestDeniedConnectionsAreNoOutage(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	database := pgx.Identifier{db.Name()}.Sanitize()
	execute := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(c *pgx.ConnConfig, role string){
		"no such role":               func(c *pgx.ConnConfig, _ string) { c.User = "pglock_no_such_role" },
		"a wrong password":           func(c *pgx.ConnConfig, _ string) { c.Password = "s3cret-and-wrong" },
		"no such database":           func(c *pgx.ConnConfig, _ string) { c.Database = "pglock_no_such_database" },
		"a role that may not log in": func(_ *pgx.ConnConfig, role string) { execute("ALTER ROLE " + role + " NOLOGIN") },
		"an unknown parameter":       func(c *pgx.ConnConfig, _ string) { c.RuntimeParams["passwrd"] = "s3cret" },
		"a parameter's wrong value":  func(c *pgx.ConnConfig, _ string) { c.RuntimeParams["lock_timeout"] = "soon" },
		"no right to connect":        func(*pgx.ConnConfig, string) { execute("REVOKE CONNECT ON DATABASE " + database + " FROM PUBLIC") },
	} {
		config, role := roleConfig(t, db)
		if name == "a wrong password" && db.Config(t).ConnConfig.Password == "" {
			continue // this server asks for none
		}
		change(config.ConnConfig, role)
		l, err := pglock.NewWithConfig(config)
		must.Succeed(t, err)
		key := pglock.NewKey("k")
		wantDenied(t, name+": Ping", l.Ping(minuteContext(t)))
		_, err = l.TryLock(minuteContext(t), key)
		wantDenied(t, name+": TryLock", err)
		_, err = l.Lock(minuteContext(t), key, pglock.MaxWait(30*time.Second))
		wantDenied(t, name+": Lock", err)
		closeWithinAMinute(t, l)

		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		wantDenied(t, name+": BeginFunc", pglock.BeginFunc(minuteContext(t), pool, key, func(context.Context, pgx.Tx) error { return nil }))
		limiter, err := ratelimit.New(pool, pglock.NewKey("limits"), ratelimit.WithTimeout(time.Minute))
		must.Succeed(t, err)
		_, err = limiter.Allow(minuteContext(t), "k", ratelimit.Limit{Count: 1, Per: time.Second})
		wantDenied(t, name+": ratelimit", err)
		pool.Close()
		execute("GRANT CONNECT ON DATABASE " + database + " TO PUBLIC")
	}
}

// A missing right on schema pglock has the same error, and does not keep a role from taking plain locks.
func TestDeniedAMissingRightIsDenied(t *testing.T) {
	db := testenv.Installed(t)
	config, _ := roleConfig(t, db)
	l, err := pglock.NewWithConfig(config, pglock.WithTrustedOwner(db.Config(t).ConnConfig.User))
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	lock := mustLock(t, l, pglock.NewKey("k"))
	_, err = lock.Fence(minuteContext(t))
	wantDenied(t, "Fence", err)
	mustUnlock(t, lock)
}
