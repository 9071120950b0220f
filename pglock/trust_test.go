package pglock_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// trustLog keeps the warnings of a Locker.
type trustLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *trustLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *trustLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// trustUse makes a Locker do everything that touches the schema, and returns the errors of Ping and Fence.
func trustUse(t *testing.T, config *pgxpool.Config, log *trustLog, opts ...pglock.Option) (ping, fence error) {
	t.Helper()
	opts = append(opts, pglock.WithNames(), pglock.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	l, err := pglock.NewWithConfig(config, opts...)
	must.Succeed(t, err)
	ping = l.Ping(t.Context())
	lock, err := l.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	_, fence = lock.Fence(t.Context())
	pair, err := l.LockAll(t.Context(), []pglock.Key{pglock.PairKey(7, 8), pglock.NewKey("b")}, pglock.Shared())
	must.Succeed(t, err)
	if _, err := l.Holders(t.Context(), pglock.NewKey("b")); err != nil {
		t.Error(err)
	}
	txCheck(t, pair.Unlock(t.Context()))
	txCheck(t, lock.Unlock(t.Context()))
	txCheck(t, l.Close(t.Context()))
	return ping, fence
}

func trustConfig(t *testing.T, connString string) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig(connString)
	must.Succeed(t, err)
	return config
}

// trustPrimitives calls everything else that touches the schema, and returns the errors.
func trustPrimitives(t *testing.T, pool *pgxpool.Pool) map[string]error {
	t.Helper()
	key := pglock.NewKey("k")
	sessions, err := pglock.New(pool)
	must.Closing(t, sessions, err)
	rows, err := rowlock.New(pool)
	must.Closing(t, rows, err)
	job, err := schedule.New(sessions, key)
	must.Succeed(t, err)
	scope, err := once.New(key)
	must.Succeed(t, err)
	limiter, err := ratelimit.New(pool, key, ratelimit.WithTimeout(time.Minute))
	must.Succeed(t, err)
	_, locked := rows.TryLock(t.Context(), key)
	_, allowed := limiter.Allow(t.Context(), "k", ratelimit.PerMinute(1))
	return map[string]error{
		"a lock in rows": locked,
		"a rate limit":   allowed,
		"its Prune":      ratelimit.Prune(t.Context(), pool),
		"a job":          job.Run(t.Context(), time.Now().Add(-time.Hour), nothing),
		"once":           pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return scope.Tx(t.Context(), tx, "1") }),
		"its Prune too":  once.Prune(t.Context(), pool, time.Hour),
	}
}

// trustTraps are functions that an untrusted role would offer for others to execute.
const trustTraps = `
CREATE FUNCTION pglock.lease_open(uuid, bigint, text, text, integer) RETURNS void LANGUAGE sql AS 'SELECT trap.sprung()';
CREATE FUNCTION pglock.tick(job text, due timestamptz, step text, keep interval, newest int,
	OUT at timestamptz, OUT done bool, OUT pruned timestamptz, OUT dues timestamptz[])
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); done := false; at := now(); END';
CREATE FUNCTION pglock.once(scope text, id text, f bytea, w bool, r bool, OUT outcome text, OUT done_at timestamptz, OUT result bytea)
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); outcome := ''first''; END';
CREATE FUNCTION pglock.once_prune(keep interval, most integer) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); RETURN 0; END';
CREATE FUNCTION pglock.rate_take(text[], bigint[], bigint[], bigint[], bigint[], bigint[])
	RETURNS TABLE (granted bigint, start bigint, at bigint)
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); granted := 1; RETURN NEXT; END';
CREATE FUNCTION pglock.rate_prune(integer) RETURNS bigint
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); RETURN 0; END'`

func TestTrustAPlantedSchemaIsNotUsed(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.PlantSchema(migrations.Latest())
	tenant.Exec(trustTraps)
	var log trustLog
	ping, fence := trustUse(t, db.Config(t), &log)
	for what, err := range map[string]error{"Ping": ping, "Fence": fence} {
		var untrusted *pglock.UntrustedError
		if !errors.As(err, &untrusted) || !errors.Is(err, pglock.ErrUntrusted) || untrusted.Owner != tenant.Name() {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !strings.Contains(log.String(), tenant.Name()) {
		t.Errorf("the log does not say why names are not recorded: %s", &log)
	}
	for what, err := range trustPrimitives(t, db.Pool(t)) {
		if !errors.Is(err, pglock.ErrUntrusted) || !strings.Contains(err.Error(), "WithTrustedOwner") {
			t.Errorf("%s: %v, want ErrUntrusted, and the option", what, err)
		}
	}
	tenant.WantNothingGained("after everything that touches the schema")
}

func TestTrustWithoutTheSchemaTheErrorNamesTheCommand(t *testing.T) {
	t.Parallel()
	for what, err := range trustPrimitives(t, testenv.Database(t).Pool(t)) {
		if !errors.Is(err, pglock.ErrSchemaMissing) || strings.Count(err.Error(), "pglock migrate up") != 1 {
			t.Errorf("%s: %v, want ErrSchemaMissing, and the command once", what, err)
		}
	}
}

// pgx asks a server what it is (target_session_attrs) with a function that it does not look for in pg_catalog.
func TestTrustASessionIsAskedWhatItIsOnItsOwnSearchPath(t *testing.T) {
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	for _, wanted := range []string{"primary", "prefer-standby", "read-write"} {
		t.Run(wanted, func(t *testing.T) {
			t.Setenv("PGTARGETSESSIONATTRS", wanted)
			l, err := pglock.NewWithConfig(trustConfig(t, db.ConnString()))
			must.Succeed(t, err)
			lock, err := l.Lock(t.Context(), pglock.NewKey("invoice:42"))
			must.Succeed(t, err)
			txCheck(t, lock.Unlock(t.Context()))
			txCheck(t, l.Close(t.Context()))
			tenant.WantNothingGained("after a lock of a server that is " + wanted)
		})
	}
}

// In the usual deployment one role owns the schema and another takes the locks.
func TestTrustOfASeparateMigratorTakesOneOption(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	migrator, app := trustConfig(t, db.Role(t, "migrator")), trustConfig(t, db.Role(t, "app"))
	admin := db.Connect(t)
	for _, grant := range []string{
		"GRANT CREATE ON DATABASE " + pgx.Identifier{db.Name()}.Sanitize() + " TO " +
			pgx.Identifier{migrator.ConnConfig.User}.Sanitize(),
	} {
		if _, err := admin.Exec(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), migrator)
	must.Succeed(t, err)
	defer pool.Close()
	txCheck(t, migrations.Up(t.Context(), pool))
	if _, err := pool.Exec(t.Context(), migrations.LockerGrants(app.ConnConfig.User)); err != nil {
		t.Fatal(err)
	}
	var log trustLog
	ping, fence := trustUse(t, app, &log)
	if !errors.Is(ping, pglock.ErrUntrusted) || !errors.Is(fence, pglock.ErrUntrusted) {
		t.Errorf("without the option: %v, %v", ping, fence)
	}
	log = trustLog{}
	ping, fence = trustUse(t, app, &log, pglock.WithTrustedOwner(migrator.ConnConfig.User))
	if ping != nil || fence != nil || log.String() != "" {
		t.Errorf("with the option: %v, %v, %s", ping, fence, &log)
	}
	names := must.One[int](t, pool, "SELECT count(*) FROM pglock.names")
	if names != 2 {
		t.Errorf("%d names were recorded", names)
	}
	ping, _ = trustUse(t, app, &log, pglock.WithTrustedOwner(migrator.ConnConfig.User, "no such role"))
	if ping == nil || !strings.Contains(ping.Error(), `"no such role"`) ||
		errors.Is(ping, pglock.ErrUnavailable) || errors.Is(ping, pglock.ErrDenied) || !errors.Is(ping, pglock.ErrUntrusted) {
		t.Errorf("with a role that does not exist: %v", ping)
	}
}

func TestTrustOptionIsForPostgreSQLAndNamesRoles(t *testing.T) {
	t.Parallel()
	other := struct{ driver.Backend }{} // not PostgreSQL's; the option is refused before it is started
	if _, err := pglock.NewWithBackend(other, pglock.WithTrustedOwner("a")); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("on another backend: %v", err)
	}
	if _, err := pglock.NewWithConfig(trustConfig(t, "host=localhost"), pglock.WithTrustedOwner("a", "")); err == nil {
		t.Error("an empty name is let in")
	}
}
