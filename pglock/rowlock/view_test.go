package rowlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rowLock is a row of pglock.row_locks.
type rowLock struct {
	Key           string
	Name          *string
	Space         int16
	Number        int64
	Class, Object *int32
	Mode          string
	Granted       bool
	Generation    int64
	Since         time.Time
	Holder        string
	Role          string
	Application   string
	Host          string
	PID           int32 `db:"pid"`
	ProcessSince  time.Time
	Expires       time.Time
	LeaseLeft     time.Duration
}

func rowLocks(t *testing.T, pool *pgxpool.Pool) []rowLock {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT * FROM pglock.row_locks ORDER BY number, generation")
	must.Succeed(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[rowLock])
	must.Succeed(t, err)
	return all
}

func TestTheViewShowsWhoHoldsAndWhoWaits(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	_, err := pool.Exec(t.Context(), "SELECT pglock.register('invoice:42')")
	must.Succeed(t, err)
	l, other := open(t, pool, pglock.WithApplicationName("billing")), open(t, pool)
	held, shared := lock(t, l), func() *pglock.Lock {
		shared, err := l.Lock(t.Context(), pglock.PairKey(-7, -42), pglock.Shared())
		must.Succeed(t, err)
		return shared
	}()
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := other.Lock(ctx, key)
		waits <- err
	}()
	var rows []rowLock
	testenv.WaitUntil(t, "three rows", func() bool {
		rows = rowLocks(t, pool)
		return len(rows) == 3
	})
	pair, holder, waiter := rows[0], rows[1], rows[2]
	if pair.Key != "@-7/-42" || pair.Mode != "shared" || !pair.Granted || *pair.Class != -7 || *pair.Object != -42 || pair.Space != 2 {
		t.Errorf("%+v", pair)
	}
	if holder.Key != "invoice:42" || *holder.Name != "invoice:42" || holder.Mode != "exclusive" || !holder.Granted || holder.Class != nil ||
		holder.Application != "billing" || holder.Holder != pair.Holder || holder.LeaseLeft <= 0 || holder.Role == "" || holder.PID == 0 {
		t.Errorf("%+v", holder)
	}
	if waiter.Key != "invoice:42" || waiter.Granted || waiter.Holder == holder.Holder || len(waiter.Holder) != 16 {
		t.Errorf("%+v", waiter)
	}
	cancel()
	<-waits

	for _, ended := range []bool{true, false} { // the second time there is none that lives
		var got bool
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT pglock.lease_terminate($1)", holder.Holder).Scan(&got))
		if got != ended {
			t.Errorf("ended: %v", got)
		}
	}
	if rows := rowLocks(t, pool); len(rows) != 0 {
		t.Errorf("of a holder that is over: %+v", rows)
	}
	unlock(t, lock(t, other))
	wantIs(t, held.Verify(t.Context()), pglock.ErrLost)
	wantIs(t, shared.Verify(t.Context()), pglock.ErrLost)
}

// Where a process runs is not for every role, as with sessions.
func TestTheViewHidesHostsFromRolesThatMayNotSeeThem(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	app, watcher := connect(t, db.Role(t, "pglock_app")), connect(t, db.Role(t, "pglock_watcher"))
	user := func(pool *pgxpool.Pool) string { return pool.Config().ConnConfig.User }
	_, err := pool.Exec(t.Context(), migrations.LockerGrants(user(app))+migrations.WatcherGrants(user(watcher))+
		migrations.WatcherGrants(user(app)))
	must.Succeed(t, err)
	l := open(t, app, pglock.WithTrustedOwner(user(pool)))
	defer unlock(t, lock(t, l))
	for watching, sees := range map[*pgxpool.Pool]bool{pool: true, app: true, watcher: false} {
		var key, role string
		var shown bool
		must.Succeed(t, watching.QueryRow(t.Context(),
			"SELECT key, role, host IS NOT NULL AND pid IS NOT NULL FROM pglock.row_locks").Scan(&key, &role, &shown))
		if key != "@6688477336110245193" || role != user(app) || shown != sees {
			t.Errorf("%s sees %s of %s, and where it runs: %v", user(watching), key, role, shown)
		}
	}
}
