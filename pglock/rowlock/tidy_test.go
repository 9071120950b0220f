package rowlock

import (
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The server gets a release late, and meanwhile the process compares what both know. If it dropped the lock too, the
// release could find it gone and report a loss.
func TestALockThatIsBeingReleasedIsNotDroppedAsUnknown(t *testing.T) {
	t.Parallel()
	pool := testenv.Database(t).Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	b := newBackend(pool.Config())
	l, err := pglock.NewWithBackend(b)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, l.Close(t.Context())) }()
	lock, err := l.Lock(t.Context(), pglock.NewKey("released"))
	must.Succeed(t, err)

	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM pglock.holders FOR UPDATE") // for which calls wait
	must.Succeed(t, err)
	got := make(chan error, 1)
	go func() { got <- lock.Unlock(t.Context()) }()
	testenv.WaitUntil(t, "the release waits", func() (waits bool) {
		must.Succeed(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%lease_call%')`).Scan(&waits))
		return waits
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
