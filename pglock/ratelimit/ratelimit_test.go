package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/internal/suites/ratelimittest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

const patience = time.Minute

var slow = ratelimit.Limit{Count: 24, Per: 24 * time.Hour, Burst: 5}

func TestRatelimitARefusalWritesNothing(t *testing.T) {
	server := testenv.Installed(t)
	pool := server.Pool(t)
	l := open(t, pool)
	for range slow.Burst {
		if d, err := ratelimittest.Allow(t.Context(), l, "k", slow); err != nil || !d.OK {
			t.Fatal(d, err)
		}
	}
	// Others write WAL too, so the measurement is repeated until they do not.
	const refusals, tries = 50, 20
	var wal, xids int64
	for range tries {
		before := must.One[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")
		xid := must.One[int64](t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8")
		for range refusals {
			if d, err := ratelimittest.Allow(t.Context(), l, "k", slow); err != nil || d.OK {
				t.Fatal(d, err)
			}
		}
		wal = must.One[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8") - before
		xids = must.One[int64](t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8") - xid
		if wal == 0 && xids == 0 {
			return
		}
	}
	t.Errorf("%d refusals wrote %d bytes of WAL and took %d transaction IDs, in the last of %d tries", refusals, wal, xids, tries)
}

// A decision counts from the moment at which the row is locked, so a caller that waited for the row does not use the
// time before the wait.
func TestRatelimitTheTimeIsTakenAfterTheRowIsLocked(t *testing.T) {
	_, pool := installed(t)
	l := open(t, pool)
	if _, err := ratelimittest.Allow(t.Context(), l, "k", slow); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM pglock.rates WHERE key = 'limits/k' FOR UPDATE")
	must.Succeed(t, err)
	decided := make(chan ratelimittest.Answer, 1)
	go func() {
		d, err := ratelimittest.Allow(t.Context(), l, "k", slow)
		if err != nil {
			t.Error(err)
		}
		decided <- d
	}()
	awaitBlocked(t, pool)
	until := must.One[time.Time](t, pool, "SELECT clock_timestamp()")
	must.Succeed(t, tx.Rollback(t.Context()))
	if d := <-decided; d.At.Before(until) || !d.OK {
		t.Errorf("decided at %v, but the row was locked until %v", d.At, until)
	}
}

func awaitBlocked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testenv.WaitUntil(t, "a session waits for the row", func() bool {
		return must.One[int](t, pool, `SELECT count(*)::int FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
}

// gate is a store that delays calls until the test lets them through, and records them.
type gate struct {
	ratelimittest.Memory
	open  chan struct{}
	mu    sync.Mutex
	calls [][]ratestore.Run
}

func (g *gate) Take(ctx context.Context, runs []ratestore.Run) ([]ratestore.Grant, error) {
	g.mu.Lock()
	g.calls = append(g.calls, runs)
	g.mu.Unlock()
	<-g.open
	return g.Memory.Take(ctx, runs)
}

func TestRatelimitCallersOfAMomentAreOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		l, err := ratelimittest.New(g, limits)
		must.Succeed(t, err)
		var wg sync.WaitGroup
		ask := func(n int) (d ratelimittest.Answer) {
			d, err := ratelimittest.AllowN(t.Context(), l, "k", slow, n)
			if err != nil {
				t.Error(err)
			}
			return d
		}
		wg.Go(func() { ask(1) })
		synctest.Wait() // it is on its way
		var decisions [6]ratelimittest.Answer
		for i, n := range []int{1, 1, 3, 1, 1, 1} { // four are left, so two are granted and then three are refused
			wg.Go(func() { decisions[i] = ask(n) })
			synctest.Wait() // so that they arrive in this order
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := ratelimittest.Allow(ctx, l, "k", slow); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel() // before it is sent
		synctest.Wait()
		close(g.open)
		wg.Wait()
		if len(g.calls) != 2 || len(g.calls[1]) != 3 || g.calls[1][0].Count != 2 || g.calls[1][2].Count != 3 {
			t.Errorf("the store was asked %+v", g.calls)
		}
		for i, want := range []bool{true, true, false, false, false, false} {
			if decisions[i].OK != want {
				t.Errorf("caller %d got %+v", i, decisions[i])
			}
		}
		if d := ask(2); !d.OK || d.Remaining != 0 {
			t.Errorf("afterwards there should be two left: %+v", d)
		}
	})
}

func TestRatelimitRetryAfterIsWhenItIsLetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimittest.New(&ratelimittest.Memory{}, limits)
		must.Succeed(t, err)
		limit := ratelimit.Limit{Count: 7, Per: time.Second, Burst: 3}
		for i := range 100 {
			n := 1 + i%3
			d, err := ratelimittest.AllowN(t.Context(), l, "k", limit, n)
			must.Succeed(t, err)
			if d.OK {
				continue
			}
			time.Sleep(d.RetryAfter - 1)
			if d, err := ratelimittest.AllowN(t.Context(), l, "k", limit, n); err != nil || d.OK {
				t.Fatalf("let through a nanosecond early: %+v, %v", d, err)
			}
			time.Sleep(time.Nanosecond)
			if d, err := ratelimittest.AllowN(t.Context(), l, "k", limit, n); err != nil || !d.OK {
				t.Fatalf("not let through after RetryAfter: %+v, %v", d, err)
			}
		}
		d, err := ratelimittest.Allow(t.Context(), l, "k", limit)
		must.Succeed(t, err)
		time.Sleep(d.ResetAfter)
		if d, err := ratelimittest.AllowN(t.Context(), l, "k", limit, limit.Burst); err != nil || !d.OK {
			t.Errorf("the burst is not there after ResetAfter: %+v, %v", d, err)
		}
	})
}

// To a store a strict limit is one like others, which the suite tries.
func TestRatelimitAStrictLimitHoldsInEveryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimittest.New(&ratelimittest.Memory{}, limits)
		must.Succeed(t, err)
		for burst := range 21 {
			limit := ratelimit.Limit{Count: 20, Per: 250 * time.Millisecond, Burst: burst}.Strict()
			var times []time.Time
			for range 2000 {
				time.Sleep(rand.N(2 * time.Millisecond))
				n := 1 + rand.IntN(max(1, burst))
				d, err := ratelimittest.AllowN(t.Context(), l, limit.String(), limit, n)
				must.Succeed(t, err)
				if d.OK {
					times = append(times, slices.Repeat([]time.Time{d.At}, n)...)
				}
			}
			for last := limit.Count; last < len(times); last++ {
				if window := times[last].Sub(times[last-limit.Count]); window < limit.Per {
					t.Fatalf("%v: more than %d in %v", limit, limit.Count, window)
				}
			}
			if len(times) < limit.Count {
				t.Errorf("%v: only %d were let through", limit, len(times))
			}
		}
	})
}

func TestRatelimitAServerThatIsGoneIsAnOutage(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere?sslmode=disable")
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	l := open(t, pool)
	_, err = l.Allow(t.Context(), "k", slow)
	for _, err := range []error{err, l.Wait(t.Context(), "k", slow)} {
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Error(err)
		}
	}
}

func TestRatelimitAServerThatDoesNotAnswerIsAnOutage(t *testing.T) {
	_, pool := installed(t)
	l := open(t, pool, ratelimit.WithTimeout(100*time.Millisecond))
	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE pglock.rates")
	must.Succeed(t, err)
	if _, err := l.Allow(t.Context(), "k", slow); !errors.Is(err, pglock.ErrUnavailable) {
		t.Error(err)
	}
}

func TestRatelimitAClockThatIsSetBackDelaysNothing(t *testing.T) {
	_, pool := installed(t)
	ratelimittest.ExerciseClock(t, open(t, pool), func(key string) {
		const hour = int64(time.Hour)
		moved, err := pool.Exec(t.Context(), `UPDATE pglock.rates SET busy_until = busy_until + $2, decided_at = decided_at + $2
			WHERE key = $1`, "limits/"+key, hour)
		if must.Succeed(t, err); moved.RowsAffected() != 1 {
			t.Fatalf("%s: %v", key, moved)
		}
	})
}

func TestRatelimitPruneDeletesWhatSaysNothing(t *testing.T) {
	db, owner := installed(t)
	pool, err := pgxpool.New(t.Context(), db.Role(t, "pglock_locker"))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	_, err = owner.Exec(t.Context(), migrations.LockerGrants(pool.Config().ConnConfig.User))
	must.Succeed(t, err)
	l := open(t, pool)
	fast := ratelimit.Limit{Count: 1000, Per: time.Millisecond}
	for i := range 10 {
		_, err := ratelimittest.Allow(t.Context(), l, fmt.Sprint("fast ", i), fast)
		must.Succeed(t, err)
	}
	_, err = ratelimittest.Allow(t.Context(), l, "slow", slow)
	must.Succeed(t, err)
	_, err = owner.Exec(t.Context(), "INSERT INTO pglock.rates SELECT i, 0 FROM generate_series(1, 2500) AS i")
	must.Succeed(t, err)
	time.Sleep(time.Millisecond)
	must.Succeed(t, ratelimit.Prune(t.Context(), pool))
	if n := must.One[int](t, owner, "SELECT count(*)::int FROM pglock.rates"); n != 1 {
		t.Errorf("%d keys are left", n)
	}
	if d, err := ratelimittest.Allow(t.Context(), l, "slow", slow); err != nil || d.Remaining != slow.Burst-2 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestRatelimitMisuseIsAnError(t *testing.T) {
	_, pool := installed(t)
	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, db := range []pglock.DB{nil, tx.Conn()} {
		if _, err := ratelimit.New(db, limits); err == nil {
			t.Errorf("New takes %T", db)
		}
		if err := ratelimit.Prune(t.Context(), db); err == nil {
			t.Errorf("Prune takes %T", db)
		}
	}
	for _, opt := range []ratelimit.Option{nil, ratelimit.WithTimeout(0)} {
		if _, err := ratelimit.New(pool, limits, opt); err == nil {
			t.Error("a wrong option is no error")
		}
	}
}

func TestRatelimitTheObserverLearnsOfEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []pglock.Event
		observer := func(_ context.Context, e pglock.Event) { seen = append(seen, e) }
		l, err := ratelimittest.New(&ratelimittest.Memory{}, limits, ratelimit.WithObserver(observer))
		must.Succeed(t, err)
		one := ratelimit.Limit{Count: 1, Per: time.Minute}
		_, first := l.Allow(t.Context(), "k", one)
		_, second := l.Allow(t.Context(), "k", one)
		third := l.Wait(t.Context(), "k", one, pglock.MaxWait(time.Second))
		fourth := l.Wait(t.Context(), "k", one, pglock.MaxWait(time.Hour))
		for i, err := range []error{first, second, third, fourth} {
			if no := i == 1 || i == 2; errors.Is(err, pglock.ErrNotAcquired) != no || !no && err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if e := seen[i]; e.Use.Kind != pglock.UseRate || e.ID != "k" || e.Err != err {
				t.Errorf("of call %d the Observer learned %+v", i, e)
			}
		}
		if len(seen) != 4 || seen[3].Took != time.Minute {
			t.Errorf("the Observer learned of %+v", seen)
		}
	})
}

func TestRatelimitMisuseOfACallIsAnError(t *testing.T) {
	l, err := ratelimittest.New(&ratelimittest.Memory{}, limits)
	must.Succeed(t, err)
	for name, test := range map[string]struct {
		key   string
		limit ratelimit.Limit
		n     int
		want  string
	}{
		"a long key":         {strings.Repeat("x", 1025), slow, 1, "bytes"},
		"NUL":                {"a\x00", slow, 1, "NUL"},
		"invalid UTF-8":      {"a\xff", slow, 1, "UTF-8"},
		"none":               {"a", slow, 0, "at least one"},
		"a negative number":  {"a", slow, -1, "at least one"},
		"no count":           {"a", ratelimit.Limit{Per: time.Second}, 1, "Count"},
		"a negative rate":    {"a", ratelimit.PerSecond(-1), 1, "Count"},
		"no time":            {"a", ratelimit.Limit{Count: 1}, 1, "Per"},
		"a negative burst":   {"a", ratelimit.Limit{Count: 1, Per: 1, Burst: -1}, 1, "Burst"},
		"too often":          {"a", ratelimit.Limit{Count: 11, Per: 10}, 1, "nanosecond"},
		"too slow":           {"a", ratelimit.Limit{Count: 1, Per: 1 << 62}, 1, "longer"},
		"a wide strict one":  {"a", ratelimit.Limit{Count: 5, Per: time.Second, Burst: 6}.Strict(), 1, "strict"},
		"more than a strict": {"a", ratelimit.PerSecond(5).Strict(), 2, "burst"},
	} {
		_, err := l.AllowN(t.Context(), test.key, test.limit, test.n)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.WaitN(t.Context(), test.key, test.limit, test.n); err == nil {
			t.Errorf("%s can be waited for", name)
		}
	}
}
