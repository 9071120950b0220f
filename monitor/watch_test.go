package monitor_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// shortInterval keeps tests short.
const shortInterval = 10 * time.Millisecond

func TestWatchShowsWhatChanges(t *testing.T) {
	db := testenv.Database(t)
	holder := db.Connect(t)
	const want = 5
	var seen int
	for s, err := range monitor.NewWatcher(db.Pool(t)).Watch(t.Context(), shortInterval) {
		must.Succeed(t, err)
		requireServerState(t, db, s)
		if len(s.Locks) != seen {
			t.Fatalf("snapshot %d has %d locks", seen, len(s.Locks))
		}
		if seen == want {
			break
		}
		// The consumer takes several intervals. The next snapshot is taken after that.
		seen++
		_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock($1), pg_sleep(0.05)", seen)
		must.Succeed(t, err)
	}
	if seen != want {
		t.Errorf("watched %d snapshots, want %d", seen, want)
	}
}

func TestWatchBeginsAtOnceAndStopsWhenTheConsumerDoes(t *testing.T) {
	db := testenv.Database(t)
	watch := monitor.NewWatcher(db.Pool(t)).Watch(t.Context(), 24*time.Hour)
	for range 2 {
		var yields int
		for s, err := range watch {
			must.Succeed(t, err)
			requireServerState(t, db, s)
			yields++
			break
		}
		if yields != 1 {
			t.Errorf("got %d snapshots, want one", yields)
		}
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range monitor.NewWatcher(pool).Watch(ctx, 24*time.Hour) {
		must.Succeed(t, err)
		cancel()
	}
	for s, err := range monitor.NewWatcher(pool).Watch(ctx, shortInterval) {
		t.Errorf("after the end of its context Watch yielded %v, %v", s, err)
	}
}

// cancelling cancels a context when it is used, and then continues.
type cancelling struct {
	pglock.DB
	cancel context.CancelFunc
}

func (c cancelling) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	c.cancel()
	return c.DB.SendBatch(ctx, batch)
}

func TestWatchEndsInTheMiddleOfASnapshot(t *testing.T) {
	db := testenv.Database(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for s, err := range monitor.NewWatcher(cancelling{db.Pool(t), cancel}).Watch(ctx, shortInterval) {
		t.Errorf("after the end of its context Watch yielded %v, %v", s, err)
	}
}

func TestWatchRefusesAnIntervalThatIsNotPositive(t *testing.T) {
	db := testenv.Database(t)
	for _, every := range []time.Duration{0, -time.Second} {
		var errs int
		for s, err := range monitor.NewWatcher(db.Pool(t)).Watch(t.Context(), every) {
			if s != nil || err == nil {
				t.Errorf("every %v: got %v and %v, want an error", every, s, err)
			}
			errs++
		}
		if errs != 1 {
			t.Errorf("every %v: %d errors, want one", every, errs)
		}
	}
}

func TestWatchSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	key := pglock.Int64Key(1)
	session(t, db, "SELECT pg_advisory_lock(1)")

	const (
		up = iota
		down
		upAgain
	)
	state := up
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s, err := range monitor.NewWatcher(db.Pool(t)).Watch(ctx, shortInterval) {
		switch state {
		case up:
			must.Succeed(t, err)
			find(t, s, key)
			must.Succeed(t, server.Down(t.Context(), pgserver.Immediate))
			state = down
		case down:
			if err == nil {
				t.Fatalf("a server that is down gave %+v", s)
			}
			must.Succeed(t, server.Up(t.Context()))
			state = upAgain
		case upAgain:
			if err != nil {
				continue // the pool may find its broken connections one by one
			}
			requireServerState(t, db, s)
			if _, held := s.Find(key); held {
				t.Error("a lock outlived the restart")
			}
			return
		}
	}
	t.Error("Watch ended before the server was seen again")
}
