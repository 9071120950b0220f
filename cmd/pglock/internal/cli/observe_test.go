package cli

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// A server freezes after a snapshot, before it is asked which sessions have ended. What is known of it can be read
// meanwhile.
func TestObserverAnswersWhileItsServerDoesNot(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	pool := db.Pool(t)
	holder := db.Connect(t)
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1)")
	must.Succeed(t, err)
	db.Queue(t, db.Connect(t), "SELECT pg_advisory_lock(1)")
	o := newObserver(pool, "", nil)
	first, err := o.take(t.Context())
	must.Succeed(t, err)
	next := &monitor.Snapshot{TakenAt: first.TakenAt.Add(time.Second)} // without the sessions, so it is asked for them
	must.Succeed(t, server.Freeze())
	t.Cleanup(func() { must.Succeed(t, server.Thaw()) })
	ctx, cancel := context.WithCancel(t.Context())
	noted := make(chan error, 1)
	go func() {
		_, _, err := o.note(ctx, next, nil)
		noted <- err
	}()
	testenv.WaitUntil(t, "it asks the frozen server", func() bool { return acquired(pool) })
	if live := o.live(time.Hour); live.Snapshot != first {
		t.Errorf("the snapshot is %+v", live.Snapshot)
	}
	cancel()
	must.Succeed(t, <-noted)
	if live := o.live(time.Hour); live.Snapshot != next {
		t.Errorf("after it the snapshot is %+v", live.Snapshot)
	}
}

// acquired reports whether a connection is in use.
func acquired(pool *pgxpool.Pool) bool { return pool.Stat().AcquiredConns() > 0 }
