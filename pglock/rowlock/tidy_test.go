package rowlock

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// tidied opens a Locker whose backend the test tidies itself.
func tidied(t *testing.T) (*pgxpool.Pool, *backend, *pglock.Locker) {
	db := testenv.Installed(t)
	pool, b := db.Pool(t), newBackend(db.Config(t))
	l, err := pglock.NewWithBackend(b)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, l.Close(context.Background())) })
	return pool, b, l
}

// The server gets a release late, and meanwhile the process compares what both know. If it dropped the lock too, the
// release could find it gone and report a loss.
func TestALockThatIsBeingReleasedIsNotDroppedAsUnknown(t *testing.T) {
	t.Parallel()
	pool, b, l := tidied(t)
	lock, err := l.Lock(t.Context(), pglock.NewKey("released"))
	must.Succeed(t, err)

	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM pglock.holders FOR UPDATE") // for which calls wait
	must.Succeed(t, err)
	got := make(chan error, 1)
	go func() { got <- lock.Unlock(t.Context()) }()
	testenv.WaitUntil(t, "the release waits", func() bool {
		return must.One[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%lease_call%')`)
	})
	b.holder.compare()
	if len(b.holder.known()) != 1 {
		t.Error("the row of the lock is taken for one that this process does not know")
	}
	must.Succeed(t, tx.Rollback(t.Context()))
	if err := <-got; errors.Is(err, pglock.ErrLost) { // on a slow machine it can be unconfirmed
		t.Error(err)
	}
}

// What the server has forgotten, as after a failover that loses transactions, is lost here too; what it has although it
// was dropped is dropped again.
func TestWhatTheServerForgotIsFoundOut(t *testing.T) {
	t.Parallel()
	pool, b, l := tidied(t)
	held, err := l.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	_, err = pool.Exec(t.Context(), "UPDATE pglock.leases SET holder = NULL")
	must.Succeed(t, err)
	b.holder.compare()
	if err := held.Err(); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the holder was told %v", err)
	}

	again, err := l.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	must.Succeed(t, again.Unlock(t.Context()))
	_, err = pool.Exec(t.Context(), "UPDATE pglock.leases SET attempt = 1, holder = $1", b.holder.id)
	must.Succeed(t, err)
	b.holder.compare()
	testenv.WaitUntil(t, "it is dropped again", func() bool {
		return must.One[bool](t, pool, "SELECT bool_and(holder IS NULL) FROM pglock.leases")
	})
}

// What is left of many keys is forgotten bit by bit, but soon.
func TestPruningGoesOnWhileThereIsMore(t *testing.T) {
	t.Parallel()
	pool, b, l := tidied(t)
	must.Succeed(t, l.Ping(t.Context()))
	_, err := pool.Exec(t.Context(), "INSERT INTO pglock.leases (space, number, since) "+
		"SELECT 1, n, now() - interval '2 hours' FROM generate_series(1, $1::int) AS n", 2*pruneMost+1)
	must.Succeed(t, err)
	for b.holder.prune() {
	}
	left := must.One[int](t, pool, "SELECT count(*) FROM pglock.leases")
	if left > 0 {
		t.Errorf("%d rows are left", left)
	}
}
