package faults_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// fenceCrash crashes a server while many holders draw fencing tokens. Its flushes take long, as on a slow disk, so that
// tokens are drawn while the WAL of earlier ones is not on disk.
func fenceCrash(t *testing.T, tally *faults.Tally) {
	server := testenv.NewServer(t, map[string]string{
		"fsync": "on", "commit_delay": "20000", "commit_siblings": "0", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	})
	keepLog(t, server.LogFile())
	db := testenv.On(t, server)
	if err := migrations.Up(t.Context(), db.Pool(t)); err != nil {
		t.Fatal(err)
	}
	f := fencing{T: t, tally: tally, url: db.ConnString(), given: map[int64]bool{}}
	for range scaled(400, 2) {
		f.drawUntilCrash(server)
		if err := server.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		tally.Kills.Add(1)
		tally.Trials.Add(1)
	}
}

// fencing has the tokens of all holders.
type fencing struct {
	*testing.T
	tally *faults.Tally
	url   string

	mu     sync.Mutex
	given  map[int64]bool
	before int64 // the largest token that was given before the last crash
}

// drawUntilCrash has holders draw tokens until some time after the first.
func (f *fencing) drawUntilCrash(server *pgserver.Server) {
	const lockers, holdersOfALocker = 4, 4
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	before := len(f.given)
	var drawn atomic.Int64
	var holders sync.WaitGroup
	for i := range lockers {
		l, err := deployment{Kind: onPostgres, URL: f.url}.open(new(net.Dialer).DialContext, fmt.Sprintf("fence-%d", i))
		if err != nil {
			f.Fatal(err)
		}
		defer closeSoon(f.T, l.Locker)
		for j := range holdersOfALocker {
			holders.Go(func() {
				for ctx.Err() == nil {
					if f.draw(ctx, l.Locker, pglock.NewKey(fmt.Sprintf("fence:%d:%d", i, j))) {
						drawn.Add(1)
					}
				}
			})
		}
	}
	enough := int64(20 + before%47) // so that crashes come at any place of what PostgreSQL logs ahead
	for began := time.Now(); drawn.Load() < enough; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			violation(f.T, f.tally, "there were no tokens for %v", patience)
			break
		}
	}
	if err := server.Down(f.Context(), pgserver.Immediate); err != nil {
		f.Fatal(err)
	}
	stop()
	holders.Wait()
	for token := range f.given {
		f.before = max(f.before, token)
	}
}

// draw reports whether the next holder of the key was given a token.
func (f *fencing) draw(ctx context.Context, l *pglock.Locker, key pglock.Key) bool {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return false // the server is down
	}
	defer func() { _ = lock.Unlock(context.Background()) }()
	f.tally.Operations.Add(1)
	token, err := lock.Fence(ctx)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.given[token] || token <= f.before {
		violation(f.T, f.tally, "token %d was given after a crash; before it the largest was %d", token, f.before)
	}
	f.given[token] = true
	return true
}
