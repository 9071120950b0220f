package rowlock

import (
	"context"
	"errors"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// statements counts what is sent through its connections, by the function of the schema that a statement calls.
type statements struct {
	mu   sync.Mutex
	sent map[string]int
}

func (s *statements) of(function string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[function]
}

// counted returns the configuration of a database with the schema, where connections are counted.
func counted(t *testing.T) (*statements, *pgxpool.Config) {
	t.Helper()
	db := testenv.Installed(t)
	s := &statements{sent: map[string]int{}}
	config := db.Config(t)
	config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return countingConn{conn, s}, err
	}
	return s, config
}

type countingConn struct {
	net.Conn
	statements *statements
}

var leaseFunction = regexp.MustCompile(`pglock\.(lease_\w+)\(`)

// Write counts the statements in b. pgx writes whole messages, and a Locker's have the texts of their statements.
func (c countingConn) Write(b []byte) (int, error) {
	c.statements.mu.Lock()
	for _, match := range leaseFunction.FindAllSubmatch(b, -1) {
		c.statements.sent[string(match[1])]++
	}
	c.statements.mu.Unlock()
	return c.Conn.Write(b)
}

func newLocker(t *testing.T, b *backend, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithBackend(b, opts...)
	must.Succeed(t, err)
	return l
}

// Goroutines of one process hand a lock to each other without the server.
func TestHandoffsWithinAProcessSendNoStatement(t *testing.T) {
	t.Parallel()
	sent, config := counted(t)
	const waiting = 100
	l := newLocker(t, newBackend(config), pglock.WithLease(time.Hour), pglock.WithHandoffLimit(waiting, time.Hour))
	key := pglock.NewKey("invoice:42")
	first, err := l.Lock(t.Context(), key)
	must.Succeed(t, err)
	took := sent.of("lease_call")
	var group sync.WaitGroup
	for range waiting {
		group.Go(func() {
			lock, err := l.Lock(t.Context(), key)
			if err != nil {
				t.Error(err)
				return
			}
			if n := sent.of("lease_call"); n != took {
				t.Errorf("%d calls were sent when the lock was handed off, want only the %d that took it", n, took)
			}
			if err := lock.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.WaitUntil(t, "all wait", func() bool { return l.Stats().Waiting == waiting })
	must.Succeed(t, first.Unlock(t.Context()))
	group.Wait()
	if calls := sent.of("lease_call"); calls != took+1 {
		t.Errorf("%d calls were sent, want the %d that took the lock and the one that dropped it", calls, took)
	}
	must.Succeed(t, l.Close(t.Context()))
}

// Processes that poll leave the server to the holder for a moment.
func TestAKeyThatWasRefusedIsNotAskedForAgainAtOnce(t *testing.T) {
	t.Parallel()
	_, config := counted(t)
	b := newBackend(config)
	l := newLocker(t, b)
	key := pglock.Int64Key(1)
	b.refused.Store(&refusal{driver.KeyID{Space: 1, Number: 1}, driver.Now().Add(time.Hour)})
	other, err := l.TryLock(t.Context(), pglock.Int64Key(2))
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := l.TryLock(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("a try of a key that was just refused: %v, want that it waits until its context ends", err)
	}
	must.Succeed(t, other.Unlock(t.Context()))
	must.Succeed(t, l.Close(t.Context()))
}

// A call that waits has tried before, and is refused then. That must not delay the next lock of its process.
func TestACallThatWaitsDoesNotPoll(t *testing.T) {
	t.Parallel()
	_, config := counted(t)
	b, key := newBackend(config), pglock.Int64Key(1)
	waits := make(chan struct{})
	l, other := newLocker(t, b, pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		if e.Type == pglock.EventWaitStarted { // its try has been refused
			close(waits)
		}
	})), newLocker(t, newBackend(config))
	held, err := other.Lock(t.Context(), key)
	must.Succeed(t, err)
	granted := make(chan *pglock.Lock, 1)
	go func() {
		lock, err := l.Lock(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		granted <- lock
	}()
	<-waits
	must.Succeed(t, held.Unlock(t.Context()))
	lock := <-granted
	if b.refused.Load() != nil {
		t.Error("the next try would be delayed")
	}
	must.Succeed(t, lock.Unlock(t.Context()))
	must.Succeed(t, l.Close(t.Context()))
	must.Succeed(t, other.Close(t.Context()))
}

// Of locks that are held for long, a few statements ask for all waiters of the process, at most once per maxLook, however
// many there are. A slow machine asks less often.
func TestAFewStatementsAskForAllWaiters(t *testing.T) {
	t.Parallel()
	sent, config := counted(t)
	const goroutines, keys, looks, each = 1000, 100, 4, 8
	all := make([]pglock.Key, keys)
	for i := range all {
		all[i] = pglock.Int64Key(int64(i))
	}
	holder := newLocker(t, newBackend(config))
	held, err := holder.LockAll(t.Context(), all)
	must.Succeed(t, err)
	b := newBackend(config)
	l := newLocker(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() {
			if _, err := l.Lock(ctx, all[i%keys]); err == nil {
				t.Error("a lock was granted that is held elsewhere")
			}
		})
	}
	testenv.WaitUntil(t, "the first of each key wait in the queue of the server", func() bool {
		return b.pretendLongWaits() == keys && l.Stats().Waiting == goroutines
	})
	began, before := driver.Now(), sent.of("lease_call")
	testenv.WaitUntil(t, "the server was asked some times", func() bool { return sent.of("lease_call") >= before+looks*each })
	n, took := sent.of("lease_call")-before, driver.Now().Sub(began)
	if most := each * (int(took/maxLook) + 2); n > most { // some may have been on their way, and some may come at once
		t.Errorf("%d statements in %v, want %d at most", n, took, most)
	}
	cancel()
	group.Wait()
	must.Succeed(t, held.Unlock(t.Context()))
	must.Succeed(t, holder.Close(t.Context()))
	must.Succeed(t, l.Close(t.Context()))
}

// A first answer without any ahead is of a key whose row is locked for a moment.
func TestWaitsBeginWithTheFirstAnswer(t *testing.T) {
	var p place
	if p.seen(taken{letter: busy}); p.changed == 0 {
		t.Error("the pauses of a wait are a share of the time since the start of the process")
	}
}

// pretendLongWaits makes the waiters' locks appear to have been held for an hour, and returns how many wait.
func (b *backend) pretendLongWaits() int {
	b.mu.Lock()
	h := b.holder
	b.mu.Unlock()
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting {
		w.place.changed = driver.Now().Add(-time.Hour)
	}
	return len(h.waiting)
}
