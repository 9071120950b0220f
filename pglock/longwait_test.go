package pglock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// logBook is a log that a test reads.
type logBook struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written sync.Cond
}

func newLogBook() *logBook {
	b := &logBook{}
	b.written.L = &b.mu
	return b
}

// await waits for a line that contains each of texts.
func (b *logBook) await(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.linesLocked(texts)) == 0 {
		b.written.Wait()
	}
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written.Broadcast()
	return b.text.Write(p)
}

func (b *logBook) option() pglock.CommonOption {
	return pglock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// lines returns the lines that contain each of texts.
func (b *logBook) lines(texts ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.linesLocked(texts)
}

func (b *logBook) linesLocked(texts []string) (found []string) {
	for line := range strings.Lines(b.text.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

// Ten thousand calls wait for two keys for 41 s: the log says so of each key after 5, 10, 20 and 40 s, once for all of them.
func TestWaitsThatLastAreLoggedOnceForEachDoubling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLogBook()
		server := locktest.NewServer()
		l, err := server.Locker(log.option())
		must.Succeed(t, err)
		other, err := server.Locker()
		must.Succeed(t, err)
		here := mustLock(t, l, pglock.NewKey("here"))
		elsewhere := mustLock(t, other, pglock.NewKey("elsewhere"))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 1000 {
			for _, key := range []string{"here", "elsewhere"} {
				calls.Go(func() { _, _ = l.Lock(ctx, pglock.NewKey(key)) })
			}
		}
		elector, err := leader.New(l, pglock.NewKey("elsewhere"))
		must.Succeed(t, err)
		calls.Go(func() { _ = elector.Run(ctx, nil) })
		time.Sleep(4900 * time.Millisecond)
		if early := log.lines(""); len(early) > 0 {
			t.Errorf("after 4.9 s the log says\n%s", early)
		}
		time.Sleep(36100 * time.Millisecond)
		for _, key := range []string{"key=here", "key=elsewhere"} {
			lines := log.lines(`msg="waiting for a lock"`, key, "calls=1000")
			if len(lines) != 4 || !strings.Contains(lines[0], "waited=5s") || !strings.Contains(lines[3], "waited=40s") {
				t.Errorf("%s: the lines are\n%s", key, strings.Join(lines, ""))
			}
		}
		if all := log.lines(""); len(all) != 8 {
			t.Errorf("the log is\n%s", strings.Join(all, ""))
		}
		if held := log.lines("key=here", "this process, since 2000-01-01T00:00:00Z"); len(held) != 4 {
			t.Errorf("the holder in this process is not named: %s", log.lines("key=here"))
		}
		cancel()
		calls.Wait()
		mustUnlock(t, here)
		mustUnlock(t, elsewhere)
		must.Succeed(t, errors.Join(l.Close(t.Context()), other.Close(t.Context())))
	})
}

// slowTx is granted a lock after so long.
type slowTx struct {
	pgx.Tx
	after time.Duration
}

func (slowTx) Conn() *pgx.Conn                                    { return nil }
func (t slowTx) QueryRow(context.Context, string, ...any) pgx.Row { return t }

func (t slowTx) Scan(into ...any) error {
	time.Sleep(t.after)
	reflect.ValueOf(into[0]).Elem().SetString("granted")
	return nil
}

// One line comes for each doubling also of a call that waits in a transaction.
func TestTxWaitsThatLastAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLogBook()
		var calls sync.WaitGroup
		for i, after := range []time.Duration{4900, 41000} {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				tx, key := slowTx{after: after * time.Millisecond}, pglock.NewKey("k")
				if err := pglock.LockTx(t.Context(), tx, key, log.option()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		lines := log.lines("msg=", `"waiting for a lock" key=k use=transaction waited=`)
		text := strings.Join(lines, "")
		if len(lines) != 4 || len(log.lines("")) != 4 || !strings.Contains(lines[0], "waited=5s since=2000-01-01T00:00:00.001Z") ||
			!strings.Contains(lines[3], "waited=40s") {
			t.Errorf("the log is\n%s", text)
		}
	})
}

// The log names the holder in another process, and of a permit the semaphore.
func TestWaitsThatLastNameTheirHolders(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	log := newLogBook()
	l := openLocker(t, db, log.option(), pglock.WithWarnAfter(50*time.Millisecond))
	other := openLocker(t, db, pglock.WithApplicationName("billing"))
	lock := mustLock(t, other, pglock.NewKey("k"))
	full, err := semaphore.New(other, pglock.NewKey("reports"), 1)
	must.Succeed(t, err)
	permit, err := full.Acquire(t.Context())
	must.Succeed(t, err)
	permits, err := semaphore.New(l, pglock.NewKey("reports"), 1)
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = l.Lock(ctx, pglock.NewKey("k")) })
	calls.Go(func() { _, _ = permits.Acquire(ctx) })
	for _, what := range []string{"key=k ", `key=reports use="semaphore permit"`} {
		log.await(what, "billing (pglock ")
	}
	cancel()
	calls.Wait()
	mustUnlock(t, lock)
	must.Succeed(t, permit.Release(t.Context()))
}

// slowHolders answers who holds a lock after 50 ms, one call at a time.
type slowHolders struct {
	*silentBackend
	one   chan struct{}
	asked atomic.Int64
}

func (b *slowHolders) Holders(ctx context.Context, _ driver.Key) ([]driver.Holder, error) {
	select {
	case b.one <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-b.one }()
	b.asked.Add(1)
	time.Sleep(50 * time.Millisecond)
	return []driver.Holder{{PID: 7}}, nil
}

// Waits that end together share one question of who holds the lock, and those that are cancelled ask none.
func TestTheEndOfAContextIsAnsweredWithin100ms(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": after(time.Second), "cancel": cancelledAfter(time.Second),
	} {
		for _, keys := range []int{1, 50} {
			synctest.Test(t, func(t *testing.T) {
				b := &slowHolders{silentBackend: newSilentBackend(), one: make(chan struct{}, 1)}
				close(b.free)
				l, err := pglock.NewWithBackend(b)
				must.Succeed(t, err)
				start := time.Now()
				ctx, cancel := end(t.Context())
				defer cancel()
				var locks []*pglock.Lock
				for i := range keys {
					locks = append(locks, mustLock(t, l, pglock.Keyf("k%d", i)))
				}
				var calls sync.WaitGroup
				for i := range 200 {
					calls.Go(func() {
						_, err := l.Lock(ctx, pglock.Keyf("k%d", i%keys))
						wait := &pglock.WaitError{}
						if took := time.Since(start); !errors.As(err, &wait) || took > 1100*time.Millisecond {
							t.Errorf("%s, %d keys: %v after %v", name, keys, err, took)
						}
						if keys == 1 && name == "deadline" && len(wait.Holders) != 1 {
							t.Errorf("the holder is not named: %v", err)
						}
					})
				}
				calls.Wait()
				if cancelled := name == "cancel"; b.asked.Load() > int64(keys) || cancelled && b.asked.Load() > 0 {
					t.Errorf("%s, %d keys: who holds them was asked %d times", name, keys, b.asked.Load())
				}
				for _, lock := range locks {
					mustUnlock(t, lock)
				}
				time.Sleep(2 * time.Second) // the last questions end
				must.Succeed(t, l.Close(t.Context()))
			})
		}
	}
}
